// SPDX-License-Identifier: Apache-2.0
// What one box is: the message from the agent to `trainyard-agent box`, and what comes back. Plain
// data; travels as JSON on an inherited descriptor.
#pragma once

#include "base/bytes.h"
#include "plan/plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// How much separation the machine allows; the ladder of docs/reference/sandbox.md.
enum class Rung {
    namespaces,  ///< own mount, PID, IPC and UTS namespaces (and user namespace when not root)
    process,     ///< a process group under a subreaper; no private view of the file system
};
std::string_view to_string(Rung rung);

struct BoxBind {
    std::string source, target;
    enum class Access { read_only, writable } access = Access::read_only;
};

struct BoxPlan {
    Rung rung = Rung::namespaces;
    std::string root;               ///< empty folder the new root is mounted on
    std::string host = "algo-1";    ///< host name, and 127.0.0.1 in /etc/hosts
    plan::Pairs addresses;          ///< /etc/hosts instead: {host, address}, our own among them
    std::vector<BoxBind> binds;     ///< later ones cover earlier ones
    plan::Pairs files;              ///< {absolute path, content} made in the new root
    Bytes shared_memory;            ///< /dev/shm
    bool gpus = false;              ///< show the NVIDIA devices
    std::string cgroup;             ///< folder to join before anything else; empty: none
    std::vector<std::string> argv;  ///< argv[0] is searched in the PATH of env
    std::vector<std::string> env;   ///< "NAME=value"
    std::string cwd = "/";
    /// Set by Box: which of the descriptors below are there.
    bool joins_user = false, joins_network = false;
};

std::string to_json(const BoxPlan& plan);
BoxPlan box_plan_from_json(std::string_view text);

/// One datagram from the box.
struct BoxReport {
    enum class Kind {
        started,  ///< the program was executed
        failed,   ///< it was not: `text` says at which step and why
        ended,    ///< exit code or signal of the program
    } kind = Kind::started;
    int code = 0, signal = 0;
    int missing = 0;  ///< errno of exec; 0 when the box itself failed
    std::string text;
};
std::string to_text(const BoxReport& report);
BoxReport box_report_from_text(std::string_view text);

/// Descriptors in the box process: the plan, and the datagram socket to the agent (down: one byte,
/// a signal number; end of file: the agent is gone).
inline constexpr int kBoxPlanFd = 3;
inline constexpr int kBoxControlFd = 4;
/// Namespaces to join, where the plan says so.
inline constexpr int kBoxUserFd = 5;
inline constexpr int kBoxNetworkFd = 6;

}  // namespace ty::agent
