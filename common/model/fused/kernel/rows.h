// What is done to a row by itself.
#pragma once

#include <cmath>

#include "linear.h"

namespace tandem {

// One row of the embedding.
inline void unpack(const Linear& table, int channel, float* out) {
    const uint8_t* panel = table.data + panel_bytes(table) * (channel / kLanes);
    const int lane = channel % kLanes;
    for (int k = 0; k < table.inputs; ++k) {
        const int group = k / kGroup, within = k % kGroup;
        if (table.format == kFloat32) {
            out[k] = reinterpret_cast<const float*>(panel)[k * kLanes + lane];
        } else if (table.format == kBfloat16) {
            out[k] = bfloat_to_float(reinterpret_cast<const uint16_t*>(panel)[(k / 2 * kLanes + lane) * 2 + k % 2]);
        } else if (table.format == kInt4) {
            const uint8_t* at = panel + group * (64 + kGroup * kLanes / 2);
            const uint16_t* halves = reinterpret_cast<const uint16_t*>(at);
            const uint8_t byte = at[64 + within % 16 / 4 * 64 + lane * 4 + within % 4];
            const int quantum = within < 16 ? byte & 15 : byte >> 4;
            out[k] = half_to_float(halves[lane]) * static_cast<float>(quantum) + half_to_float(halves[kLanes + lane]);
        } else if (table.format == kInt8Grouped) {
            const uint8_t* at = panel + group * (64 + kGroup * kLanes);
            const int quantum = at[64 + within / 4 * 64 + lane * 4 + within % 4] - 128;
            out[k] = reinterpret_cast<const float*>(at)[lane] * static_cast<float>(quantum);
        } else {
            const int quantum = panel[k / 4 * 64 + lane * 4 + k % 4] - 128;
            out[k] = table.scales[channel] * static_cast<float>(quantum);
        }
    }
}

// x / rms(x) * weight.
inline void normalise(const float* x, const float* weight, int size, float epsilon, float* out) {
    Floats squares = zeros();
    for (int i = 0; i < size; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
    const Floats factor = all(1.0f / std::sqrt(sum(squares) / static_cast<float>(size) + epsilon));
    for (int i = 0; i < size; i += kLanes) store(out + i, mul(load(weight + i), mul(load(x + i), factor)));
}

// Pairs (i, i + size / 2) turn by the position's angles.
inline void rotate(float* x, const float* cosines, const float* sines, int size) {
    const int half = size / 2;
    for (int i = 0; i < half; i += kLanes) {
        const Floats first = load(x + i), second = load(x + i + half), cosine = load(cosines + i), sine = load(sines + i);
        store(x + i, sub(mul(first, cosine), mul(second, sine)));
        store(x + i + half, add(mul(second, cosine), mul(first, sine)));
    }
}

}  // namespace tandem
