// SPDX-License-Identifier: Apache-2.0
// The agent's end of the conversation with the launcher in its box: it hears when the workers of a
// generation are gone and is asked before the next ones start, so that checkpoints are whole and
// the newest; and it tells the launcher to leave.
//
// Lines of text over a unix socket in a folder the box sees; the launcher's end is
// launcher/outside/node_socket.h. One thread; one launcher at a time.
#pragma once

#include "base/sync.h"
#include "plan/plan.h"
#include "sys/sys.h"

#include <functional>
#include <string>
#include <string_view>

namespace ty::agent {

class ElasticHook {
public:
    struct Callbacks {
        /// "stopped": all workers of the generation are gone. What it throws is said and does not
        /// keep the launcher.
        std::function<void(std::int64_t generation)> on_stopped;
        /// "starting": what it throws is the answer, and the generation does not start here.
        std::function<void(std::int64_t generation)> on_starting;
        std::function<void(const plan::GenerationChanged&)> on_changed;
        std::function<void(const std::string&)> say;
    };
    /// Listens at <folder>/<name>, however long that path is. Throws what errno says.
    ElasticHook(const sys::fs::path& folder, const std::string& name, Callbacks callbacks);
    ~ElasticHook();
    ElasticHook(const ElasticHook&) = delete;
    ElasticHook& operator=(const ElasticHook&) = delete;

    /// "leave": false when no launcher is there to hear it. Any thread.
    bool leave(milliseconds within, const std::string& why);
    /// The box is gone: everything the launcher had said is taken. Returns soon.
    void finish();

private:
    struct State {
        int connection = -1;  ///< borrowed from the thread
        bool over = false;
    };
    void work(const std::stop_token& stop);
    void converse(const sys::Fd& connection, const std::stop_token& stop);
    void take_line(const sys::Fd& connection, const std::string& line);
    void answer(const sys::Fd& connection, const std::string& line);

    const Callbacks callbacks_;
    sys::Fd listener_;
    int nodes_ = 0;  ///< of the generation that runs; the thread's
    Sync<State> state_;
    TaskGroup tasks_;
};

}  // namespace ty::agent
