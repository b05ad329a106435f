// What library.py hands over.
#pragma once

#include "attention.h"
#include "linear.h"

using tandem::Linear;
using tandem::Segment;

extern "C" {

struct TandemConfig {
    int32_t layers, hidden, heads, kv_heads, head_size, intermediate, vocabulary;
    int32_t num_blocks, threads, half_cache, positions, hidden_layers;
    float epsilon, attention_scale;
};

struct TandemLayer {
    Linear qkv, output, gate_up, down;  // gate_up: panels of gate and up in turn
    const float* input_norm;
    const float* post_norm;
    const float* query_norm;  // [head size] or null, as is key_norm
    const float* key_norm;
    int32_t window;  // tokens a row may look back to, itself included; 0: all
    int32_t reserved;
};

struct TandemWeights {
    const TandemLayer* layers;
    Linear embedding, head;
    const float* final_norm;
    const float* cosines;  // [positions][head size / 2]
    const float* sines;
    const int32_t* hidden_layers;
    Linear join;  // [hidden] of an embedding and a feature, each normed; outputs 0: rows are embeddings alone
    const float* embedding_norm;
    const float* feature_norm;
};

struct TandemPass {
    int32_t rows, segments, logits, moves;
    const int32_t* token_ids;     // [rows]
    const int32_t* positions;     // [rows]
    const int32_t* parents;       // [rows]: the row that a tree's row follows; -1: not of a tree, or below the root
    const Segment* segment;       // [segments]
    const int32_t* blocks;        // block tables, one after the other
    const int32_t* logit_rows;    // [logits]
    const int32_t* move_sources;  // [moves] slots of the pool
    const int32_t* move_targets;
    const float* features;        // [rows][hidden], where there is a join
    float* out;                   // [logits][vocabulary]
    float* hidden;                // [rows][hidden layers][hidden] or null
};

}  // extern "C"
