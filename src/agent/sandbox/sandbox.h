// SPDX-License-Identifier: Apache-2.0
// The agent's side of the sandbox: which rung this machine allows, and one program run in a box
// from start to end. Main thread only: the box dies with the thread that started it.
#pragma once

#include "agent/sandbox/box_plan.h"
#include "sys/sys.h"

#include <functional>
#include <optional>
#include <string>

namespace ty::agent {

struct ProbeResult {
    Rung rung = Rung::namespaces;
    std::string why;         ///< why no higher rung; empty on the first
    bool real_root = false;  ///< without a user namespace
};
/// Tries the first rung for real, in a child; TRAINYARD_SANDBOX=process skips it. Never throws.
class Probe {
public:
    Probe();
    /// Waits for the child.
    ProbeResult finish();

private:
    std::optional<sys::Child> child_;
    sys::Pipe errors_;
    std::string failed_;
};

/// What the watcher wants done; asked whenever something happened.
enum class Wish { go_on, terminate, kill };

/// How a run ended.
struct BoxEnd {
    std::optional<sys::Exit> exit;  ///< of the program; nullopt: it was not started
    std::string failure;            ///< why not
    int missing = 0;                ///< errno of the exec, when that was the reason
};

/// Namespaces a box joins instead of staying in the machine's; borrowed, -1: none.
struct NamespaceFds {
    int user = -1;  ///< joined instead of creating one; owns `network`
    int network = -1;
};

/// One box. The destructor kills whatever runs in it.
class Box {
public:
    /// `output` becomes stdout and stderr. `join` is for the namespaces rung; the other one cannot,
    /// and says so (unsupported). Throws when not even the box process can be started.
    Box(const BoxPlan& plan, int output, NamespaceFds join = {});
    ~Box();

    /// Readable when there is something for on_control().
    int control_fd() const { return control_.get(); }
    /// Take a report; true when the box is over.
    bool on_control();
    bool is_started() const { return started_; }
    /// The process started for the box; its program is somewhere below it.
    pid_t pid() const { return process_->pid(); }
    /// To the main program of the box.
    void signal(int number);
    /// SIGKILL to everything in it.
    void kill();
    /// After on_control() said it is over: reaps the processes.
    BoxEnd finish();

private:
    sys::Fd control_;
    std::optional<sys::Child> process_;
    bool started_ = false, over_ = false;
    BoxEnd end_;
};

}  // namespace ty::agent
