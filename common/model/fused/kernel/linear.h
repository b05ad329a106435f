// Linear layers whose weights are laid out once in panels of 16 output channels, for one row or many.
//
// A row's result does not depend on the other rows: activations are quantised per row in groups of 32
// inputs, products are summed as integers within a group, and groups are added up in order.
#pragma once

#include <algorithm>
#include <cstddef>

#include "simd.h"

namespace tandem {

constexpr int kGroup = 32;  // inputs that share a scale; the group of GGUF's Q4_1 and Q8_0

enum Format : int32_t {
    kFloat32 = 0,      // [inputs][16] float
    kBfloat16 = 1,     // [inputs / 2][16][2] bfloat16
    kInt8 = 2,         // [inputs / 4][16][4] bytes, weight + 128; one scale per channel, apart
    kInt8Grouped = 3,  // per group [16] float scales, then as kInt8: the values of Q8_0
    kInt4 = 4,         // per group [16] half scales, [16] half minima, [4][16][4] bytes of two: Q4_1
};

struct Linear {
    int32_t format;
    int32_t inputs;
    int32_t outputs;       // a multiple of 16; padded channels have zero weights
    int32_t reserved;
    const uint8_t* data;   // panels
    const float* scales;   // [outputs], kInt8 alone
    const float* bias;     // [outputs] or null
};

inline size_t panel_bytes(const Linear& linear) {
    const size_t inputs = linear.inputs;
    switch (linear.format) {
        case kFloat32: return inputs * kLanes * 4;
        case kBfloat16: return inputs * kLanes * 2;
        case kInt8: return inputs * kLanes;
        case kInt8Grouped: return inputs / kGroup * (64 + kGroup * kLanes);
        default: return inputs / kGroup * (64 + kGroup * kLanes / 2);
    }
}

// What a linear reads: each row in the type its format multiplies by.
struct Activations {
    int inputs = 0;
    float* floats = nullptr;      // [rows][inputs]
    uint16_t* bfloats = nullptr;  // [rows][inputs]
    int8_t* bytes = nullptr;      // [rows][inputs]
    float* scales = nullptr;      // [rows][inputs / 32]
    float* offsets = nullptr;     // scale times the sum of the group's bytes
    int32_t* sums = nullptr;      // the sum of the group's bytes, times -128
};

// A group of nothing larger counts as zeros: 127 over it may not be finite.
constexpr float kSmallest = 1e-30f;

// One group of a row: scaled so that the largest magnitude becomes 127.
inline void quantise_group(const float* x, const Activations& to, int row, int group) {
    const Floats low = load(x), high = load(x + kLanes);
    const float most = largest(max(absolute(low), absolute(high)));
    const float scale = most / 127.0f;
    const Floats inverse = all(most > kSmallest ? 127.0f / most : 0.0f);
    int8_t* bytes = to.bytes + static_cast<size_t>(row) * to.inputs + group * kGroup;
    store_int8(bytes, mul(low, inverse));
    store_int8(bytes + kLanes, mul(high, inverse));
    const int32_t total = sum_bytes(bytes);
    const size_t at = static_cast<size_t>(row) * (to.inputs / kGroup) + group;
    to.scales[at] = scale;
    to.offsets[at] = scale * static_cast<float>(total);
    to.sums[at] = -128 * total;
}

// Inputs `begin` to `end` of a row, both multiples of 32, for the linear that will read them.
inline void put(const float* x, const Activations& to, int32_t format, int row, int begin, int end) {
    const size_t at = static_cast<size_t>(row) * to.inputs;
    if (format == kFloat32) {
        std::memcpy(to.floats + at + begin, x, sizeof(float) * (end - begin));
    } else if (format == kBfloat16) {
        for (int i = begin; i < end; ++i) to.bfloats[at + i] = float_to_bfloat(x[i - begin]);
    } else {
        for (int group = begin / kGroup; group < end / kGroup; ++group)
            quantise_group(x + group * kGroup - begin, to, row, group);
    }
}

inline int32_t four(const int8_t* bytes) {
    int32_t x;
    std::memcpy(&x, bytes, 4);
    return x;
}

// Sixteen int32 sums of products of unsigned weights and four signed activations a step.
#if TANDEM_AVX512 && defined(__AVX512VNNI__)

struct Sums {
    __m512i v;
    void start(int32_t offset) { v = _mm512_set1_epi32(offset); }  // offset: -128 times the activations' sum
    struct Weights {
        __m512i v;
        explicit Weights(const uint8_t* p) : v(_mm512_loadu_si512(p)) {}
    };
    void add(const Weights& weights, int32_t x) { v = _mm512_dpbusd_epi32(v, weights.v, _mm512_set1_epi32(x)); }
    Floats floats() const { return {_mm512_cvtepi32_ps(v)}; }
};
struct Nibbles {
    __m512i low, high;
    explicit Nibbles(const uint8_t* p) {
        const __m512i mask = _mm512_set1_epi8(15), bytes = _mm512_loadu_si512(p);
        low = _mm512_and_si512(bytes, mask);
        high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
    }
};
struct NibbleSums {
    __m512i v;
    void start() { v = _mm512_setzero_si512(); }
    void add(__m512i weights, int32_t x) { v = _mm512_dpbusd_epi32(v, weights, _mm512_set1_epi32(x)); }
    Floats floats() const { return {_mm512_cvtepi32_ps(v)}; }
};

#elif TANDEM_AVX512 || TANDEM_AVX2

inline Floats to_floats(__m256i lo, __m256i hi) {
#if TANDEM_AVX512
    return {_mm512_cvtepi32_ps(_mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1))};
#else
    return {_mm256_cvtepi32_ps(lo), _mm256_cvtepi32_ps(hi)};
#endif
}
// Multiplies magnitudes by activations that carry the weight's sign: two products of at most 127 * 127 fit
// the 16 bits they are added in. So no offset is needed.
struct Sums {
    __m256i lo, hi;
    void start(int32_t) { lo = hi = _mm256_setzero_si256(); }
    struct Weights {
        __m256i lo, hi, abs_lo, abs_hi;
        explicit Weights(const uint8_t* p) : lo(half(p)), hi(half(p + 32)), abs_lo(_mm256_abs_epi8(lo)), abs_hi(_mm256_abs_epi8(hi)) {}
        static __m256i half(const uint8_t* p) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
            return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
        }
    };
    void add(const Weights& weights, int32_t x) {
        lo = half(lo, weights.abs_lo, weights.lo, x);
        hi = half(hi, weights.abs_hi, weights.hi, x);
    }
    static __m256i half(__m256i sums, __m256i magnitudes, __m256i signs, int32_t x) {
        const __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(_mm256_set1_epi32(x), signs));
        return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    Floats floats() const { return to_floats(lo, hi); }
};
struct Nibbles {
    struct Half {
        __m256i lo, hi;
    } low, high;
    explicit Nibbles(const uint8_t* p) {
        const __m256i mask = _mm256_set1_epi8(15);
        const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
        const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
        low = {_mm256_and_si256(first, mask), _mm256_and_si256(second, mask)};
        high = {_mm256_and_si256(_mm256_srli_epi16(first, 4), mask),
                _mm256_and_si256(_mm256_srli_epi16(second, 4), mask)};
    }
};
// A group's eight steps fit 16 bits: 8 * 2 * 15 * 127 < 2^15.
struct NibbleSums {
    __m256i lo, hi;
    void start() { lo = hi = _mm256_setzero_si256(); }
    void add(const Nibbles::Half& weights, int32_t x) {
        const __m256i broadcast = _mm256_set1_epi32(x);
        lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(weights.lo, broadcast));
        hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(weights.hi, broadcast));
    }
    Floats floats() const {
        const __m256i ones = _mm256_set1_epi16(1);
        return to_floats(_mm256_madd_epi16(lo, ones), _mm256_madd_epi16(hi, ones));
    }
};

#else

struct Sums {
    int32_t v[kLanes];
    void start(int32_t offset) { std::fill(v, v + kLanes, offset); }
    using Weights = const uint8_t*;
    void add(const uint8_t* weights, int32_t x) {
        int8_t bytes[4];
        std::memcpy(bytes, &x, 4);
        for (int lane = 0; lane < kLanes; ++lane)
            for (int i = 0; i < 4; ++i) v[lane] += weights[lane * 4 + i] * bytes[i];
    }
    Floats floats() const { return each([&](int i) { return static_cast<float>(v[i]); }); }
};
struct Nibbles {
    uint8_t low[64], high[64];
    explicit Nibbles(const uint8_t* p) {
        for (int i = 0; i < 64; ++i) low[i] = p[i] & 15, high[i] = p[i] >> 4;
    }
};
struct NibbleSums : Sums {
    void start() { Sums::start(0); }
};

#endif

// The sums of R rows from `row` on with one panel: the heart of it. One panel at a time, as weights are best
// read as a single stream; eight rows are enough to keep the multipliers busy.
template <int R>
using Results = Floats[R];

template <int R>
inline void clear(Results<R>& out) {
    for (int r = 0; r < R; ++r) out[r] = zeros();
}

template <int R>
inline void copy(const Results<R>& from, Results<R>& to) {
    for (int r = 0; r < R; ++r) to[r] = from[r];
}

template <int R>
inline void float32_tile(const uint8_t* panel, const Activations& x, int row, Results<R>& out) {
    const float* at = x.floats + static_cast<size_t>(row) * x.inputs;
    Results<R> total;
    clear<R>(total);
    for (int k = 0; k < x.inputs; ++k) {
        const Floats w = load(reinterpret_cast<const float*>(panel) + k * kLanes);
        for (int r = 0; r < R; ++r) total[r] = fma(w, all(at[r * x.inputs + k]), total[r]);
    }
    copy<R>(total, out);
}

template <int R>
inline void bfloat16_tile(const uint8_t* panel, const Activations& x, int row, Results<R>& out) {
    const uint16_t* at = x.bfloats + static_cast<size_t>(row) * x.inputs;
    Results<R> total;
    clear<R>(total);
    for (int k = 0; k < x.inputs; k += 2) {
        const uint16_t* pairs = reinterpret_cast<const uint16_t*>(panel) + k * kLanes;
#if TANDEM_AVX512 && defined(__AVX512BF16__)
        const __m512bh w = (__m512bh)_mm512_loadu_si512(pairs);
        for (int r = 0; r < R; ++r) {
            const int32_t pair = four(reinterpret_cast<const int8_t*>(at + r * x.inputs + k));
            total[r].v = _mm512_dpbf16_ps(total[r].v, w, (__m512bh)_mm512_set1_epi32(pair));
        }
#else
        float even[kLanes], odd[kLanes];
        for (int i = 0; i < kLanes; ++i)
            even[i] = bfloat_to_float(pairs[2 * i]), odd[i] = bfloat_to_float(pairs[2 * i + 1]);
        const Floats first = load(even), second = load(odd);
        for (int r = 0; r < R; ++r) {
            total[r] = fma(first, all(bfloat_to_float(at[r * x.inputs + k])), total[r]);
            total[r] = fma(second, all(bfloat_to_float(at[r * x.inputs + k + 1])), total[r]);
        }
#endif
    }
    copy<R>(total, out);
}

// With many rows a panel is read too slowly for the processor to see that it is a stream.
template <int R, int kBytes>
inline void read_ahead(const uint8_t* panel) {
    constexpr int kDistance = 4096;
    if (R >= 4)
        for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(panel + kDistance + i);
}

template <int R, bool kGrouped>
inline void int8_tile(const uint8_t* panel, const Activations& x, int row, Results<R>& out) {
    constexpr int kHead = kGrouped ? 64 : 0, kRecord = kGroup * kLanes + kHead;
    const int groups = x.inputs / kGroup;
    const size_t first = static_cast<size_t>(row) * groups;
    const int8_t* bytes = x.bytes + static_cast<size_t>(row) * x.inputs;
    Results<R> total;
    clear<R>(total);
    for (int g = 0; g < groups; ++g, panel += kRecord, bytes += kGroup) {
        read_ahead<R, kRecord>(panel);
        Sums sums[R];
        for (int r = 0; r < R; ++r) sums[r].start(x.sums[first + r * groups + g]);
        for (int step = 0; step < kGroup / 4; ++step) {
            const Sums::Weights w(panel + kHead + step * 64);
            for (int r = 0; r < R; ++r) sums[r].add(w, four(bytes + r * x.inputs + step * 4));
        }
        Floats own = zeros();
        if (kGrouped) own = load(reinterpret_cast<const float*>(panel));
        for (int r = 0; r < R; ++r) {
            const Floats scale = all(x.scales[first + r * groups + g]);
            total[r] = fma(kGrouped ? mul(own, scale) : scale, sums[r].floats(), total[r]);
        }
    }
    copy<R>(total, out);
}

template <int R>
inline void int4_tile(const uint8_t* panel, const Activations& x, int row, Results<R>& out) {
    constexpr int kHead = 64, kRecord = kHead + kGroup * kLanes / 2;
    const int groups = x.inputs / kGroup;
    const size_t first = static_cast<size_t>(row) * groups;
    const int8_t* bytes = x.bytes + static_cast<size_t>(row) * x.inputs;
    Results<R> total;
    clear<R>(total);
    for (int g = 0; g < groups; ++g, panel += kRecord, bytes += kGroup) {
        read_ahead<R, kRecord>(panel);
        NibbleSums sums[R];
        for (int r = 0; r < R; ++r) sums[r].start();
        for (int step = 0; step < 4; ++step) {
            const Nibbles w(panel + kHead + step * 64);
            for (int r = 0; r < R; ++r) {
                sums[r].add(w.low, four(bytes + r * x.inputs + step * 4));
                sums[r].add(w.high, four(bytes + r * x.inputs + step * 4 + 16));
            }
        }
        const uint16_t* own = reinterpret_cast<const uint16_t*>(panel);
        const Floats scale = load_half(own), minimum = load_half(own + kLanes);
        for (int r = 0; r < R; ++r) {
            const size_t at = first + r * groups + g;
            total[r] = fma(mul(scale, all(x.scales[at])), sums[r].floats(), total[r]);
            total[r] = fma(minimum, all(x.offsets[at]), total[r]);
        }
    }
    copy<R>(total, out);
}

template <int R>
inline void tile(const Linear& linear, const Activations& x, int row, int panel, Results<R>& out) {
    const uint8_t* at = linear.data + panel_bytes(linear) * panel;
    switch (linear.format) {
        case kFloat32: return float32_tile<R>(at, x, row, out);
        case kBfloat16: return bfloat16_tile<R>(at, x, row, out);
        case kInt8: return int8_tile<R, false>(at, x, row, out);
        case kInt8Grouped: return int8_tile<R, true>(at, x, row, out);
        default: return int4_tile<R>(at, x, row, out);
    }
}

// Where the results go: out[row * stride + channel], set or added to.
struct Target {
    float* out;
    size_t stride;
    bool accumulate;
};

template <int R>
inline void multiply_tile(const Linear& linear, const Activations& x, int row, int panel, int first, const Target& to) {
    Results<R> results;
    tile<R>(linear, x, row, panel, results);
    for (int r = 0; r < R; ++r) {
        float* out = to.out + (row + r) * to.stride + static_cast<size_t>(panel - first) * kLanes;
        Floats value = results[r];
        if (linear.scales) value = mul(value, load(linear.scales + panel * kLanes));
        if (linear.bias) value = add(value, load(linear.bias + panel * kLanes));
        store(out, to.accumulate ? add(load(out), value) : value);
    }
}

// All rows with panels [begin, end); channel 0 of the target is that of panel `first`. A panel stays in the
// L1 cache while the rows pass over it.
inline void multiply(const Linear& linear, const Activations& x, int rows, int begin, int end, int first, const Target& to) {
    for (int panel = begin; panel < end; ++panel) {
        int row = 0;
        for (; row + 8 <= rows; row += 8) multiply_tile<8>(linear, x, row, panel, first, to);
        switch (rows - row) {
            case 7: multiply_tile<7>(linear, x, row, panel, first, to); break;
            case 6: multiply_tile<6>(linear, x, row, panel, first, to); break;
            case 5: multiply_tile<5>(linear, x, row, panel, first, to); break;
            case 4: multiply_tile<4>(linear, x, row, panel, first, to); break;
            case 3: multiply_tile<3>(linear, x, row, panel, first, to); break;
            case 2: multiply_tile<2>(linear, x, row, panel, first, to); break;
            case 1: multiply_tile<1>(linear, x, row, panel, first, to); break;
            default: break;
        }
    }
}

}  // namespace tandem
