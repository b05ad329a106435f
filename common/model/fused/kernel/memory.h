// Where the kernel keeps what it computes: the KV pool, and the rows between two linears.
#pragma once

#include <cstddef>
#include <new>
#include <sys/mman.h>
#include <vector>

#include "linear.h"

namespace tandem {

// Zeroed memory in huge pages where the system has them: reading it is then up to twice as fast. Pages are
// taken when first written.
class Memory {
  public:
    explicit Memory(size_t size) : size_(size) {
        base_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        madvise(base_, size, MADV_HUGEPAGE);
#endif
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { munmap(base_, size_); }
    char* get() const { return static_cast<char*>(base_); }

  private:
    void* base_;
    size_t size_;
};

// Room for one linear's input.
struct Buffers {
    std::vector<float> floats, scales, offsets;
    std::vector<uint16_t> bfloats;
    std::vector<int8_t> bytes;
    std::vector<int32_t> sums;

    void reserve(size_t rows, int inputs, int32_t format) {
        const size_t size = rows * inputs, groups = size / kGroup;
        if (format == kFloat32) grow(floats, size);
        if (format == kBfloat16) grow(bfloats, size);
        if (format > kBfloat16) grow(bytes, size), grow(scales, groups), grow(offsets, groups), grow(sums, groups);
    }
    Activations view(int inputs) {
        return {inputs, floats.data(), bfloats.data(), bytes.data(), scales.data(), offsets.data(), sums.data()};
    }
    template <typename T>
    static void grow(std::vector<T>& buffer, size_t size) {
        if (buffer.size() < size) buffer.resize(size);
    }
};

}  // namespace tandem
