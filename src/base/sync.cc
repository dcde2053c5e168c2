// SPDX-License-Identifier: Apache-2.0
#include "base/sync.h"

#include "base/error.h"
#include "base/log.h"

#include <pthread.h>

namespace ty {

void TaskGroup::start(std::string name, std::function<void(std::stop_token)> fn) {
    std::list<Task> finished;  // joined after the lock is released
    state_.with([&](State& state) {
        if (state.closed)
            throw_error(Code::cancelled, "", "no new task \"{}\": shutting down", name);
        for (auto it = state.tasks.begin(); it != state.tasks.end();) {
            const auto next = std::next(it);
            if (it->done) finished.splice(finished.end(), state.tasks, it);
            it = next;
        }
        state.tasks.emplace_back();
        Task& task = state.tasks.back();
        task.thread = std::jthread(
            [this, &task, name = std::move(name), fn = std::move(fn)](std::stop_token stop) {
                pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
                try {
                    fn(stop);
                } catch (const std::exception& error) {
                    log::error("thread ended by an exception",
                               {{"thread", name}, {"error", error.what()}});
                }
                state_.with([&](State&) { task.done = true; });
            });
    });
}

std::size_t TaskGroup::running() const {
    return state_.with([](const State& state) {
        std::size_t count = 0;
        for (const Task& task : state.tasks) count += task.done ? 0 : 1;
        return count;
    });
}

void TaskGroup::request_stop() {
    state_.with([](State& state) {
        for (Task& task : state.tasks) task.thread.request_stop();
    });
}

void TaskGroup::stop_and_join() {
    std::list<Task> tasks;
    state_.with([&](State& state) {
        state.closed = true;
        for (Task& task : state.tasks) task.thread.request_stop();
        tasks.splice(tasks.end(), state.tasks);
    });
    tasks.clear();  // joins outside the lock: tasks take it to mark themselves done
}

}  // namespace ty
