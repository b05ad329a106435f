// A team of threads that runs one function together, in phases. Within a phase each takes the next task that
// is left; which thread does a task changes nothing in its result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <sched.h>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {

inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Team {
  public:
    // Throws std::system_error where the system has no more threads.
    explicit Team(int size) : size_(size) {
        try {
            for (int index = 1; index < size; ++index) threads_.emplace_back([this, index] { serve(index); });
        } catch (...) {
            end();
            throw;
        }
    }

    ~Team() { end(); }

    int size() const { return size_; }

    // Call `work(index)` in every thread, the caller's included, and return when all are done. It must not
    // throw: whoever leaves early is waited for forever.
    void run(const std::function<void(int)>& work) {
        work_ = &work;
        next_[0].store(0, std::memory_order_relaxed);
        next_[1].store(0, std::memory_order_relaxed);
        phase_ = 0;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            called_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        work(0);
        barrier();
    }

    // To be called by every thread alike. No thread leaves before all tasks are done.
    template <typename Task>
    void phase(int tasks, const Task& task) {
        auto& next = next_[phase_ & 1];
        for (int index; (index = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(index);
        barrier();
    }

  private:
    static constexpr int kSpins = 4096;
    static constexpr int kIdleSpins = 20000;  // some 100 microseconds: a next pass follows most soon after

    void barrier() {
        const unsigned generation = generation_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            next_[phase_ & 1].store(0, std::memory_order_relaxed);
            ++phase_;
            generation_.fetch_add(1, std::memory_order_release);
            return;
        }
        for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins)
            spins < kSpins ? relax() : static_cast<void>(sched_yield());
    }

    void end() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ending_ = true;
            called_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

    void serve(int index) {
        for (unsigned seen = 0;;) {
            for (int spins = 0; spins < kIdleSpins && called_.load(std::memory_order_acquire) == seen; ++spins)
                relax();
            if (called_.load(std::memory_order_acquire) == seen) {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return called_.load(std::memory_order_acquire) != seen; });
            }
            ++seen;
            if (ending_) return;
            (*work_)(index);
            barrier();
        }
    }

    const int size_;
    const std::function<void(int)>* work_ = nullptr;
    unsigned phase_ = 0;
    bool ending_ = false;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::thread> threads_;
    alignas(64) std::atomic<unsigned> called_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<unsigned> generation_{0};
    alignas(64) std::atomic<int> next_[2] = {{0}, {0}};
};

}  // namespace tandem
