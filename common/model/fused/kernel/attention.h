// Attention of packed rows over keys and values in paged blocks of 16 tokens.
//
// In a block keys lie as [head size][16 tokens] and values as [16 tokens][head size], so both products run
// over lanes. A row looks at its tokens in the order of their positions, block by block from the first one:
// what it gets depends neither on how the prompt was cut nor on which rows it was computed with. Tokens it
// may not see get a weight of exactly 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "simd.h"

namespace tandem {

constexpr int kBlock = 16;    // tokens of a KV block; must be kLanes
constexpr int kQueries = 8;   // query vectors that share a pass over the keys
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

// N query vectors of [head size]; `last[n]` is the position of the row that query n belongs to.
template <int N, typename Element>
void attend(const Context<Element>& context, const float* const* queries, const int* last, int window, float scale,
            Scratch& scratch, float* const* out) {
    const int size = context.cache.head_size;
    const int newest = *std::max_element(last, last + N), oldest = *std::min_element(last, last + N);
    const int begin = window > 0 ? std::max(0, oldest - window + 1) / kBlock : 0;
    const int end = newest / kBlock + 1;
    const size_t stride = static_cast<size_t>(end) * kBlock;
    float* weights = scratch.weights.data();
    Floats most[N];
    for (int n = 0; n < N; ++n) most[n] = all(-3e38f);
    for (int b = begin; b < end; ++b) {
        const Element* keys = context.keys(b);
        Floats scores[N];
        for (int n = 0; n < N; ++n) scores[n] = zeros();
        for (int d = 0; d < size; ++d) {
            const Floats key = load_element(keys + d * kBlock);
            for (int n = 0; n < N; ++n) scores[n] = fma(key, all(queries[n][d]), scores[n]);
        }
        const bool edge = (b + 1) * kBlock > oldest + 1 || (window > 0 && b * kBlock <= newest - window);
        for (int n = 0; n < N; ++n) {
            float* at = weights + n * stride + b * kBlock;
            Floats score = mul(scores[n], all(scale));
            if (edge) {
                store(at, score);
                for (int lane = 0; lane < kBlock; ++lane) {
                    const int position = b * kBlock + lane;
                    if (position > last[n] || (window > 0 && position <= last[n] - window)) at[lane] = -3e38f;
                }
                score = load(at);
            }
            store(at, score);
            most[n] = max(most[n], score);
        }
    }
    float inverse[N];
    for (int n = 0; n < N; ++n) {
        const Floats top = all(largest(most[n]));
        Floats total = zeros();
        for (int b = begin; b < end; ++b) {
            float* at = weights + n * stride + b * kBlock;
            const Floats weight = exponential(sub(load(at), top));
            store(at, weight);
            total = add(total, weight);
        }
        inverse[n] = 1.0f / sum(total);
    }
    for (int d = 0; d < size; d += 2 * kLanes) {
        const bool pair = d + kLanes < size;
        Floats low[N], high[N];
        for (int n = 0; n < N; ++n) low[n] = high[n] = zeros();
        for (int b = begin; b < end; ++b) {
            const Element* values = context.values(b) + d;
            for (int lane = 0; lane < kBlock; ++lane, values += size) {
                const Floats first = load_element(values), second = pair ? load_element(values + kLanes) : first;
                for (int n = 0; n < N; ++n) {
                    const Floats weight = all(weights[n * stride + b * kBlock + lane]);
                    low[n] = fma(weight, first, low[n]);
                    high[n] = fma(weight, second, high[n]);
                }
            }
        }
        for (int n = 0; n < N; ++n) {
            store(out[n] + d, mul(low[n], all(inverse[n])));
            if (pair) store(out[n] + d + kLanes, mul(high[n], all(inverse[n])));
        }
    }
}

template <typename Element>
void attend_many(int n, const Context<Element>& context, const float* const* queries, const int* last, int window,
                 float scale, Scratch& scratch, float* const* out) {
    switch (n) {
        case 1: return attend<1>(context, queries, last, window, scale, scratch, out);
        case 2: return attend<2>(context, queries, last, window, scale, scratch, out);
        case 3: return attend<3>(context, queries, last, window, scale, scratch, out);
        case 4: return attend<4>(context, queries, last, window, scale, scratch, out);
        case 5: return attend<5>(context, queries, last, window, scale, scratch, out);
        case 6: return attend<6>(context, queries, last, window, scale, scratch, out);
        case 7: return attend<7>(context, queries, last, window, scale, scratch, out);
        default: return attend<8>(context, queries, last, window, scale, scratch, out);
    }
}

}  // namespace tandem
