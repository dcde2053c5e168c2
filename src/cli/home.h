// SPDX-License-Identifier: Apache-2.0
// Trainyard's state folder as the command line sees it: where the daemon of this folder listens,
// and the owner's keys. Written by the daemon, read here.
#pragma once

#include "aws/aws.h"
#include "cli/verb.h"
#include "sys/sys.h"

#include <optional>
#include <string>

namespace ty::cli {

/// --home, else $TRAINYARD_HOME, else ~/.trainyard. Always absolute.
sys::fs::path home_of(const Invocation& invocation);

/// Another program of ours: it lies in the folder of this one.
sys::fs::path sibling_binary(const std::string& name);

/// Content of <home>/daemon.json.
struct DaemonInfo {
    int pid = 0;
    std::string endpoint;  ///< "http://127.0.0.1:4545"
    std::string region, account, role;
    aws::Credentials credentials;
};

/// nullopt when no daemon has ever run there. Throws corrupt, denied.
std::optional<DaemonInfo> read_daemon(const sys::fs::path& home);
/// As read_daemon, but throws unavailable with the remedy when there is none.
DaemonInfo require_daemon(const sys::fs::path& home);
/// True when a daemon holds the lock of this home.
bool is_daemon_alive(const sys::fs::path& home);
/// GET /healthz answered 200 within the deadline.
bool is_healthy(const DaemonInfo& daemon, Deadline by);

}  // namespace ty::cli
