// SPDX-License-Identifier: Apache-2.0
// Items made ahead on threads and handed out in order. One thread calls next().
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace alg {

/// next() returns make(first), make(first + 1), … make(last - 1), then nothing. `make` is called on
/// `threads` threads, at most `ahead` items before the one asked for; it must be safe to call
/// concurrently. An exception of make(k) is thrown by the next() that would have returned item k.
template <typename T>
class Prefetch {
public:
    Prefetch(std::int64_t first, std::int64_t last, int threads, int ahead,
             std::function<T(std::int64_t)> make)
        : next_(first),
          given_(first),
          last_(last),
          ahead_(std::max(ahead, 1)),  // the one asked for is always made
          make_(std::move(make)) {
        for (int i = 0; i < std::max(threads, 1); ++i)
            threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
    /// Waits for the calls of `make` that are running; no further one is started.
    ~Prefetch() {
        for (std::jthread& thread : threads_) thread.request_stop();  // all, before one is joined
    }
    Prefetch(const Prefetch&) = delete;
    Prefetch& operator=(const Prefetch&) = delete;

    std::optional<T> next() {
        std::unique_lock lock(mutex_);
        if (given_ >= last_) return std::nullopt;
        changed_.wait(lock, [this] { return ready_.contains(given_); });
        Slot slot = std::move(ready_.extract(given_).mapped());
        ++given_;
        lock.unlock();
        changed_.notify_all();
        if (slot.error) std::rethrow_exception(slot.error);
        return std::move(slot.item);
    }

private:
    struct Slot {
        std::optional<T> item;
        std::exception_ptr error;
    };
    void work(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, stop, [this] { return next_ >= last_ || next_ < given_ + ahead_; });
            if (stop.stop_requested() || next_ >= last_) return;
            const std::int64_t number = next_++;
            lock.unlock();
            Slot slot;
            try {
                slot.item = make_(number);
            } catch (...) {
                slot.error = std::current_exception();
            }
            lock.lock();
            ready_.emplace(number, std::move(slot));
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::map<std::int64_t, Slot> ready_;
    std::int64_t next_, given_;
    const std::int64_t last_;
    const int ahead_;
    const std::function<T(std::int64_t)> make_;
    std::vector<std::jthread> threads_;
};

}  // namespace alg
