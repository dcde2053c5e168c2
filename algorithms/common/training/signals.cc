// SPDX-License-Identifier: Apache-2.0
#include "common/training/signals.h"

#include <atomic>
#include <csignal>

namespace alg {
namespace {

// A handler can reach nothing else than globals.
std::atomic<bool> stop_flag = false;
std::atomic<bool> save_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
    (number == SIGTERM ? stop_flag : save_flag).store(true, std::memory_order_relaxed);
}

}  // namespace

void watch_signals() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // reads and writes of data and checkpoints go on
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
}

bool stop_requested() noexcept {
    return stop_flag.load(std::memory_order_relaxed);
}

void request_save() noexcept {
    save_flag.store(true, std::memory_order_relaxed);
}

bool take_save_request() noexcept {
    return save_flag.load(std::memory_order_relaxed) && save_flag.exchange(false);
}

}  // namespace alg
