// SPDX-License-Identifier: Apache-2.0
// Sharing between threads: data fused with its mutex, and threads that are always joined.
#pragma once

#include "base/time.h"

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace ty {

/// A value reachable only under its mutex (R16). Never hold it across a wait, callback or network
/// call.
template <typename T>
class Sync {
public:
    template <typename... Args>
    explicit Sync(Args&&... args) : value_(std::forward<Args>(args)...) {}

    template <typename Fn>
    auto with(Fn&& fn) -> decltype(fn(std::declval<T&>())) {
        const std::lock_guard lock(mutex_);
        return fn(value_);
    }
    template <typename Fn>
    auto with(Fn&& fn) const -> decltype(fn(std::declval<const T&>())) {
        const std::lock_guard lock(mutex_);
        return fn(value_);
    }

    /// Wait until ready(value) holds, the deadline passes or stop is requested; then run fn under
    /// the lock and return its result. fn sees the value whatever ended the wait.
    template <typename Ready, typename Fn>
    auto wait(Deadline by, const std::stop_token& stop, Ready&& ready, Fn&& fn)
        -> decltype(fn(std::declval<T&>())) {
        std::unique_lock lock(mutex_);
        const auto check = [&] { return ready(value_); };
        if (by.is_never()) {
            changed_.wait(lock, stop, check);
        } else {
            changed_.wait_until(lock, stop, by.point(), check);
        }
        return fn(value_);
    }
    /// Wake waiters after a change made through with().
    void notify() { changed_.notify_all(); }

private:
    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    T value_;
};

/// Named threads that are stopped and joined on destruction (R18). start() reaps finished ones.
class TaskGroup {
public:
    TaskGroup() = default;
    TaskGroup(const TaskGroup&) = delete;
    TaskGroup& operator=(const TaskGroup&) = delete;
    ~TaskGroup() { stop_and_join(); }

    /// `name` shows in ps and gdb, 15 bytes at most. fn must return soon after stop is requested;
    /// an exception leaving it is logged as an error and ends the thread, not the process.
    void start(std::string name, std::function<void(std::stop_token)> fn);
    std::size_t running() const;
    void request_stop();
    void stop_and_join();

private:
    struct Task {
        std::jthread thread;
        bool done = false;
    };
    struct State {
        std::list<Task> tasks;
        bool closed = false;
    };
    Sync<State> state_;
};

}  // namespace ty
