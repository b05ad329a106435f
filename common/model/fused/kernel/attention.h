// Attention of packed rows over keys and values in paged blocks of 16 tokens.
//
// In a block keys lie as [head size][16 tokens] and values as [16 tokens][head size], so both products run
// over lanes. A row looks at its tokens in the order of their positions, block by block from the first one:
// what it gets depends neither on how the prompt was cut nor on which rows it was computed with. Tokens it
// may not see get a weight of exactly 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "simd.h"

namespace tandem {

constexpr int kBlock = 16;    // tokens of a KV block; must be kLanes
constexpr int kQueries = 48;  // most query vectors that share a look at the keys and values
constexpr int kTile = 6;      // of them in registers at once,
#if TANDEM_AVX512
constexpr int kStrip = 4;     // with so many vectors of keys or values: there are 32 registers
#else
constexpr int kStrip = 1;
#endif
static_assert(kBlock == kLanes, "a block is one vector of tokens");

inline Floats load_element(const float* p) { return load(p); }
inline Floats load_element(const uint16_t* p) { return load_half(p); }
inline void store_elements(float* p, Floats x) { store(p, x); }
// Beyond the range of halves becomes its end: an infinite value times a weight of 0 would not be 0.
inline void store_elements(uint16_t* p, Floats x) { store_half(p, min(max(x, all(-65504.0f)), all(65504.0f))); }

// One sequence's part of a pass: rows [row, row + count) hold slots [start, start + count).
struct Segment {
    int32_t row, count, start;
    int32_t root;         // slots before the tree; start + count where there is none
    int32_t first_block;  // in the pass's block table
    int32_t reserved;
};

// One layer's keys and values.
template <typename Element>
struct Cache {
    Element* keys;
    Element* values;
    int kv_heads, head_size;

    Element* key_block(int block, int head) const {
        return keys + (static_cast<size_t>(block) * kv_heads + head) * kBlock * head_size;
    }
    Element* value_block(int block, int head) const {
        return values + (static_cast<size_t>(block) * kv_heads + head) * kBlock * head_size;
    }
    void write(int block, int lane, int head, const float* key, const float* value) const {
        Element* k = key_block(block, head) + lane;
        Element* v = value_block(block, head) + static_cast<size_t>(lane) * head_size;
        for (int d = 0; d < head_size; d += kLanes) {
            Element lanes[kLanes];
            store_elements(lanes, load(key + d));
            for (int i = 0; i < kLanes; ++i) k[(d + i) * kBlock] = lanes[i];
            store_elements(v + d, load(value + d));
        }
    }
    // To key[d * stride] and value[d].
    void read(int block, int lane, int head, Element* key, int stride, Element* value) const {
        const Element* k = key_block(block, head) + lane;
        const Element* v = value_block(block, head) + static_cast<size_t>(lane) * head_size;
        for (int d = 0; d < head_size; ++d) key[d * stride] = k[d * kBlock];
        std::copy(v, v + head_size, value);
    }
    // From key[d] and value[d].
    void put_back(int block, int lane, int head, const Element* key, const Element* value) const {
        Element* k = key_block(block, head) + lane;
        for (int d = 0; d < head_size; ++d) k[d * kBlock] = key[d];
        std::copy(value, value + head_size, value_block(block, head) + static_cast<size_t>(lane) * head_size);
    }
};

// What a thread needs of its own.
struct Scratch {
    std::vector<float> weights;    // [queries][tokens]
    std::vector<char> keys, values;  // a tree row's last blocks, its ancestors in order; tokens on the move
    std::vector<float> out;        // [queries][head size]
    std::vector<float> strip;      // blocks of keys or values
};

// The blocks that a query looks at, in order of position: those of the pool, then copies.
template <typename Element>
struct Context {
    const Cache<Element>& cache;
    const int32_t* blocks;
    int head;
    int shared;  // blocks taken from the pool
    const Element* tail_keys;
    const Element* tail_values;

    const Element* keys(int b) const {
        return b < shared ? cache.key_block(blocks[b], head)
                          : tail_keys + static_cast<size_t>(b - shared) * kBlock * cache.head_size;
    }
    const Element* values(int b) const {
        return b < shared ? cache.value_block(blocks[b], head)
                          : tail_values + static_cast<size_t>(b - shared) * kBlock * cache.head_size;
    }
};

// A few query vectors that are multiplied together, so that what is loaded is used for each of them.
template <int N>
struct Tile {
    const float* const* queries;  // [N][head size]
    const int* last;              // [N] positions of the rows that the queries belong to
    float* const* weights;        // [N][tokens]
    Floats* most;                 // [N]
    float* const* out;            // [N][head size]

    int newest() const { return *std::max_element(last, last + N); }
    int oldest() const { return *std::min_element(last, last + N); }
};

// The scores of P blocks from `block` on.
template <int N, int P, typename Element>
inline void score(const Tile<N>& tile, const Element* const* keys, int block, int size, int window, float scale) {
    Floats scores[N][P];
    for (int n = 0; n < N; ++n)
        for (int p = 0; p < P; ++p) scores[n][p] = zeros();
    for (int d = 0; d < size; ++d) {
        Floats key[P];
        for (int p = 0; p < P; ++p) key[p] = load_element(keys[p] + d * kBlock);
        for (int n = 0; n < N; ++n) {
            const Floats query = all(tile.queries[n][d]);
            for (int p = 0; p < P; ++p) scores[n][p] = fma(key[p], query, scores[n][p]);
        }
    }
    const int newest = tile.newest(), oldest = tile.oldest();
    for (int p = 0; p < P; ++p) {
        const int first = (block + p) * kBlock;
        const bool edge = first + kBlock > oldest + 1 || (window > 0 && first <= newest - window);
        for (int n = 0; n < N; ++n) {
            float* at = tile.weights[n] + first;
            store(at, mul(scores[n][p], all(scale)));
            for (int lane = 0; edge && lane < kBlock; ++lane) {
                const int position = first + lane;
                if (position > tile.last[n] || (window > 0 && position <= tile.last[n] - window)) at[lane] = -3e38f;
            }
            tile.most[n] = max(tile.most[n], load(at));
        }
    }
}

// Adds up the values of `count` blocks from `block` on, times their weights: dimensions [d, d + 16 P).
template <int N, int P, typename Element>
inline void weigh(const Tile<N>& tile, const Element* const* values, int block, int count, int size, int d) {
    Floats total[N][P];
    for (int n = 0; n < N; ++n)
        for (int p = 0; p < P; ++p) total[n][p] = load(tile.out[n] + d + p * kLanes);
    for (int b = 0; b < count; ++b) {
        for (int lane = 0; lane < kBlock; ++lane) {
            Floats value[P];
            for (int p = 0; p < P; ++p) value[p] = load_element(values[b] + lane * size + d + p * kLanes);
            for (int n = 0; n < N; ++n) {
                const Floats weight = all(tile.weights[n][(block + b) * kBlock + lane]);
                for (int p = 0; p < P; ++p) total[n][p] = fma(weight, value[p], total[n][p]);
            }
        }
    }
    for (int n = 0; n < N; ++n)
        for (int p = 0; p < P; ++p) store(tile.out[n] + d + p * kLanes, total[n][p]);
}

// Blocks as floats where several tiles look at them, else as they lie in the pool.
template <typename Element>
struct Strip {
    const Element* blocks[kStrip];
    float* floats;  // [kStrip][16 * head size] or null

    template <typename Use>
    void use(int count, int size, const Use& use) const {
        if constexpr (std::is_same_v<Element, float>) return use(blocks);
        if (!floats) return use(blocks);
        const float* at[kStrip];
        for (int b = 0; b < count; ++b) at[b] = floats + static_cast<size_t>(b) * kBlock * size;
        use(at);
    }
    void widen(int count, int size) {
        if (std::is_same_v<Element, float> || !floats) return;
        const int elements = kBlock * size;
        for (int b = 0; b < count; ++b)
            for (int i = 0; i < elements; i += kLanes) store(floats + b * elements + i, load_element(blocks[b] + i));
    }
};

// At most kQueries query vectors of [head size] of one KV head; `last[n]` is the position of the row that query
// n belongs to. Each gets what it would get alone.
template <typename Element>
class Attention {
  public:
    Attention(const Context<Element>& context, int count, const float* const* queries, const int* last, int window,
              float scale, Scratch& scratch, float* const* out)
        : context_(context), count_(count), queries_(queries), last_(last), window_(window), scale_(scale),
          scratch_(scratch), out_(out), size_(context.cache.head_size) {
        const int oldest = *std::min_element(last, last + count);
        begin_ = window > 0 ? std::max(0, oldest - window + 1) / kBlock : 0;
        end_ = *std::max_element(last, last + count) / kBlock + 1;
        for (int n = 0; n < count; ++n) {
            weights_[n] = scratch.weights.data() + static_cast<size_t>(n) * end_ * kBlock;
            most_[n] = all(-3e38f);
            std::fill_n(out[n], size_, 0.0f);
        }
    }

    void run() {
        strips([&](int block, int strip) {
            Strip<Element> keys = load_strip(block, strip, [&](int b) { return context_.keys(b); });
            tiles(block, [&](const auto& tile) {
                keys.use(strip, size_, [&](const auto* const* at) {
                    if (strip == kStrip) return score<kStrip>(tile, at, block);
                    for (int b = 0; b < strip; ++b) score<1>(tile, at + b, block + b);
                });
            });
        });
        float inverse[kQueries];
        for (int n = 0; n < count_; ++n) inverse[n] = soften(n);
        strips([&](int block, int strip) {
            Strip<Element> values = load_strip(block, strip, [&](int b) { return context_.values(b); });
            tiles(block, [&](const auto& tile) {
                values.use(strip, size_, [&](const auto* const* at) { weigh(tile, at, block, strip); });
            });
        });
        for (int n = 0; n < count_; ++n)
            for (int d = 0; d < size_; d += kLanes) store(out_[n] + d, mul(load(out_[n] + d), all(inverse[n])));
    }

  private:
    template <typename Visit>
    void strips(const Visit& visit) {
        for (int block = begin_; block < end_; block += kStrip) visit(block, std::min(kStrip, end_ - block));
    }

    // The tiles that look at anything from `block` on.
    template <typename Visit>
    void tiles(int block, const Visit& visit) {
        for (int first = 0; first < count_; first += kTile) {
            const int n = std::min(kTile, count_ - first);
            if (*std::max_element(last_ + first, last_ + first + n) < block * kBlock) continue;
            switch (n) {
                case 1: visit(tile<1>(first)); break;
                case 2: visit(tile<2>(first)); break;
                case 3: visit(tile<3>(first)); break;
                case 4: visit(tile<4>(first)); break;
                case 5: visit(tile<5>(first)); break;
                default: visit(tile<6>(first)); break;
            }
        }
    }

    template <int N>
    Tile<N> tile(int first) {
        return {queries_ + first, last_ + first, weights_ + first, most_ + first, out_ + first};
    }

    template <typename At>
    Strip<Element> load_strip(int block, int count, const At& at) {
        Strip<Element> strip{{}, count_ > kTile ? scratch_.strip.data() : nullptr};
        for (int b = 0; b < count; ++b) strip.blocks[b] = at(block + b);
        strip.widen(count, size_);
        return strip;
    }

    template <int P, int N, typename E>
    void score(const Tile<N>& tile, const E* const* keys, int block) {
        tandem::score<N, P>(tile, keys, block, size_, window_, scale_);
    }

    template <int N, typename E>
    void weigh(const Tile<N>& tile, const E* const* values, int block, int count) {
        int d = 0;
        for (; d + kStrip * kLanes <= size_; d += kStrip * kLanes)
            tandem::weigh<N, kStrip>(tile, values, block, count, size_, d);
        for (; d < size_; d += kLanes) tandem::weigh<N, 1>(tile, values, block, count, size_, d);
    }

    // Scores become weights that add up to the inverse of what is returned. Strips that a query's tile left out
    // are those after its last token.
    float soften(int n) {
        const Floats top = all(largest(most_[n]));
        const int seen = std::min(end_, begin_ + (tile_end(n) - begin_ + kStrip - 1) / kStrip * kStrip);
        Floats total = zeros();
        for (int b = begin_; b < seen; ++b) {
            float* at = weights_[n] + b * kBlock;
            const Floats weight = exponential(sub(load(at), top));
            store(at, weight);
            total = add(total, weight);
        }
        return 1.0f / sum(total);
    }

    // One more than the last block that any query of n's tile looks at.
    int tile_end(int n) const {
        const int first = n / kTile * kTile, last = std::min(first + kTile, count_);
        return *std::max_element(last_ + first, last_ + last) / kBlock + 1;
    }

    const Context<Element>& context_;
    const int count_;
    const float* const* queries_;
    const int* last_;
    const int window_;
    const float scale_;
    Scratch& scratch_;
    float* const* out_;
    const int size_;
    int begin_, end_;
    float* weights_[kQueries];
    Floats most_[kQueries];
};

}  // namespace tandem
