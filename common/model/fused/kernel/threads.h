// A team of threads that runs one function together, in phases. Within a phase each takes the next task that
// is left; which thread does a task changes nothing in its result.
//
// A phase is over when its tasks are done, not when every thread has come: a thread that the system has taken
// off its core holds nobody up unless it was in the middle of a task. On a machine shared with other work, as
// a verify service beside its drafts is, waiting for all at each of some 250 phases a pass would cost a
// scheduling quantum each.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
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
    // At most `phases` a run. Throws std::system_error where the system has no more threads.
    Team(int size, int phases) : size_(size), phases_(new Phase[phases]) {
        try {
            for (int index = 1; index < size; ++index) threads_.emplace_back([this, index] { serve(index); });
        } catch (...) {
            end();
            throw;
        }
    }

    ~Team() { end(); }

    int size() const { return size_; }

    // Wait for those that still leave an earlier run: before anything changes that it refers to.
    void gather() const {
        wait([&] { return inside_.load() == 0; });
    }

    // Call `work(index)` in every thread, the caller's included. It returns when the work is done, which is
    // not when all have left it: what it refers to outside of tasks must last until `gather`. It must not throw.
    void run(std::function<void(int)> work) {
        gather();
        for (int phase = 0; phase < used_; ++phase) {
            phases_[phase].next.store(0, std::memory_order_relaxed);
            phases_[phase].done.store(0, std::memory_order_relaxed);
        }
        work_ = std::move(work);
        active_.store(true);
        call();
        position_ = 0;
        work_(0);
        used_ = position_;
        active_.store(false);
    }

    // To be called by every thread alike. Nobody leaves before all tasks are done.
    template <typename Task>
    void phase(int tasks, const Task& task) {
        Phase& phase = phases_[position_++];
        for (int index; (index = phase.next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
            task(index);
            phase.done.fetch_add(1, std::memory_order_release);
        }
        wait([&] { return phase.done.load(std::memory_order_acquire) >= tasks; });
    }

  private:
    struct alignas(64) Phase {
        std::atomic<int> next{0}, done{0};
    };

    static constexpr int kSpins = 4096;
    static constexpr int kIdleSpins = 2000;

    template <typename Condition>
    static void wait(const Condition& met) {
        for (int spins = 0; !met(); ++spins) spins < kSpins ? relax() : static_cast<void>(sched_yield());
    }

    void call() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            called_.fetch_add(1);
        }
        wake_.notify_all();
    }

    void end() {
        ending_.store(true);
        call();
        for (auto& thread : threads_) thread.join();
    }

    void serve(int index) {
        for (unsigned seen = 0; !ending_.load();) {
            for (int spins = 0; spins < kIdleSpins && called_.load() == seen; ++spins) relax();
            if (called_.load() == seen) {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return called_.load() != seen; });
            }
            seen = called_.load();
            inside_.fetch_add(1);
            if (active_.load()) {  // else the others have done it already
                position_ = 0;
                work_(index);
            }
            inside_.fetch_sub(1);
        }
    }

    inline static thread_local int position_ = 0;  // of this thread, among the phases of the run it is in

    const int size_;
    const std::unique_ptr<Phase[]> phases_;
    int used_ = 0;
    std::function<void(int)> work_;
    std::mutex mutex_;
    std::condition_variable wake_;
    alignas(64) std::atomic<unsigned> called_{0};
    alignas(64) std::atomic<int> inside_{0};
    alignas(64) std::atomic<bool> active_{false};
    std::atomic<bool> ending_{false};
    std::vector<std::thread> threads_;
};

}  // namespace tandem
