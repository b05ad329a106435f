// Sixteen floats or sixteen int32 sums at a time: AVX-512, AVX2 or plain C++, whatever this file is compiled
// for. Every operation is done lane by lane in a fixed order, so a result does not depend on the caller's
// batch.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TANDEM_AVX512 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define TANDEM_AVX2 1
#include <immintrin.h>
#endif

namespace tandem {

constexpr int kLanes = 16;

inline float half_to_float(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
    float value;
    uint32_t out;
    if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24
        value = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
        std::memcpy(&out, &value, 4);
        out |= sign;
    } else if (exponent == 31) {
        out = sign | 0x7f800000u | (mantissa << 13);
    } else {
        out = sign | ((exponent + 112) << 23) | (mantissa << 13);
    }
    std::memcpy(&value, &out, 4);
    return value;
}

// Rounds to nearest even, for values within the range of halves.
inline uint16_t float_to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u) {  // below the smallest normal half
        const float scaled = std::fabs(value) * 16777216.0f;
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyintf(scaled)));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float bfloat_to_float(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

// Rounds to nearest even.
inline uint16_t float_to_bfloat(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if TANDEM_AVX512

struct Floats {
    __m512 v;
};
inline Floats zeros() { return {_mm512_setzero_ps()}; }
inline Floats all(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats sub(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats mul(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats div(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats absolute(Floats a) { return {_mm512_abs_ps(a.v)}; }
inline Floats load_half(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_half(uint16_t* p, Floats a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
// Round to nearest and keep the low byte of each lane: for values within [-127, 127].
inline void store_int8(int8_t* p, Floats a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a.v)));
}
// e^x for x <= 88; exactly 0 below -87.
inline Floats exponential(Floats x) {
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x.v, _mm512_set1_ps(1.44269504f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x.v);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 y = _mm512_set1_ps(1.9875691500e-4f);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.3981999507e-3f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(8.3334519073e-3f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(4.1665795894e-2f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.6666665459e-1f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.0000001201e-1f));
    y = _mm512_fmadd_ps(_mm512_mul_ps(y, r), r, _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    const __mmask16 normal = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-87.0f), _CMP_GE_OQ);
    return {_mm512_maskz_scalef_ps(normal, y, n)};
}

#elif TANDEM_AVX2

struct Floats {
    __m256 lo, hi;
};
inline Floats zeros() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Floats a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
inline Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Floats sub(Floats a, Floats b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Floats mul(Floats a, Floats b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Floats div(Floats a, Floats b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Floats absolute(Floats a) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
inline Floats load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store_half(uint16_t* p, Floats a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_int8(int8_t* p, Floats a) {
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline __m256 exponential(__m256 x) {
    const __m256 bounded = _mm256_max_ps(x, _mm256_set1_ps(-87.0f));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(bounded, _mm256_set1_ps(1.44269504f)), 0);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), bounded);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 y = _mm256_set1_ps(1.9875691500e-4f);
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.3981999507e-3f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(8.3334519073e-3f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(4.1665795894e-2f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.6666665459e-1f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(5.0000001201e-1f));
    y = _mm256_fmadd_ps(_mm256_mul_ps(y, r), r, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    // 2^n by its exponent bits; -126 <= n <= 127 here, and 2^128 is met at x = 88.4 only.
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const __m256 normal = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_GE_OQ);
    return _mm256_and_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(power)), normal);
}
inline Floats exponential(Floats x) { return {exponential(x.lo), exponential(x.hi)}; }

#else

struct Floats {
    float v[kLanes];
};
template <typename Operation>
inline Floats each(Operation operation) {
    Floats out;
    for (int i = 0; i < kLanes; ++i) out.v[i] = operation(i);
    return out;
}
inline Floats all(float x) { return each([&](int) { return x; }); }
inline Floats zeros() { return all(0.0f); }
inline Floats load(const float* p) { return each([&](int i) { return p[i]; }); }
inline void store(float* p, Floats a) { std::memcpy(p, a.v, sizeof a.v); }
inline Floats add(Floats a, Floats b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
inline Floats sub(Floats a, Floats b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
inline Floats mul(Floats a, Floats b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
inline Floats div(Floats a, Floats b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
inline Floats fma(Floats a, Floats b, Floats c) { return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; }); }
inline Floats max(Floats a, Floats b) { return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
inline Floats min(Floats a, Floats b) { return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
inline Floats absolute(Floats a) { return each([&](int i) { return std::fabs(a.v[i]); }); }
inline Floats load_half(const uint16_t* p) { return each([&](int i) { return half_to_float(p[i]); }); }
inline void store_half(uint16_t* p, Floats a) {
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(a.v[i]);
}
inline void store_int8(int8_t* p, Floats a) {
    for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(std::nearbyintf(a.v[i]));
}
inline Floats exponential(Floats x) {
    return each([&](int i) { return x.v[i] < -87.0f ? 0.0f : std::exp(x.v[i]); });
}

#endif

// The sum over lanes, pairwise, in an order of its own.
inline float sum(Floats a) {
    float v[kLanes];
    store(v, a);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) v[i] += v[i + width];
    return v[0];
}

// The largest lane, and the sum of 32 bytes: in whatever order, they come out the same.
#if TANDEM_AVX512
inline float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }
#else
inline float largest(Floats a) {
    float v[kLanes];
    store(v, a);
    float most = v[0];
    for (int i = 1; i < kLanes; ++i) most = v[i] > most ? v[i] : most;
    return most;
}
#endif

#if TANDEM_AVX512 || TANDEM_AVX2
inline int sum_bytes(const int8_t* p) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1)));
}
#else
inline int sum_bytes(const int8_t* p) {
    int total = 0;
    for (int i = 0; i < 32; ++i) total += p[i];
    return total;
}
#endif

}  // namespace tandem
