// SPDX-License-Identifier: Apache-2.0
// Start the daemon in the background and wait until it answers.
#include "base/error.h"
#include "base/text.h"
#include "cli/home.h"
#include "cli/render.h"

#include <fcntl.h>

namespace ty::cli {

namespace {

/// The last lines of the daemon's log, for a start that failed.
std::string log_tail(const sys::fs::path& path) {
    std::error_code ignored;
    if (!sys::fs::exists(path, ignored)) return {};
    const std::string text = sys::read_file(path, Bytes(1u << 30));
    std::size_t at = text.size();
    for (int lines = 0; lines < 6 && at != std::string::npos && at > 0; ++lines)
        at = text.rfind('\n', at - 1);
    return text.substr(at == std::string::npos ? 0 : at + 1);
}

int announce(const DaemonInfo& daemon, const sys::fs::path& home, std::string_view verb) {
    print(format("Trainyard {} at {} (state in {})\n", verb, daemon.endpoint, home.string()));
    progress("Point clients at it with:  eval \"$(trainyard env)\"\n");
    return kOk;
}

/// The daemon that holds the folder, once it answers. It may be starting still, or just dying: then
/// nullopt once it is gone.
std::optional<DaemonInfo> running_daemon(const sys::fs::path& home) {
    const Deadline by = Deadline::in(seconds(10));
    while (is_daemon_alive(home)) {
        auto daemon = read_daemon(home);
        if (daemon && is_healthy(*daemon, Deadline::in(seconds(2)))) return daemon;
        if (by.passed())
            throw_error(Code::unavailable, "",
                        "the daemon with pid {} holds {} but does not answer; `trainyard down`, "
                        "then try again",
                        daemon ? daemon->pid : 0, home.string());
        sys::pause(Deadline::in(milliseconds(20)), {});
    }
    return std::nullopt;
}

int run_up(const Invocation& invocation) {
    const sys::fs::path home = home_of(invocation);
    sys::fs::create_directories(home);
    sys::fs::permissions(home, sys::fs::perms::owner_all);
    if (const auto daemon = running_daemon(home))
        return announce(*daemon, home, "is already running");
    const sys::fs::path log = home / "daemon.log";
    const sys::Fd log_fd = sys::open_write(log, O_APPEND, 0600);
    sys::Command command{.argv = {sibling_binary("trainyardd").string(), "--home", home.string()},
                         .cwd = "/",
                         .stdout_fd = log_fd.get(),
                         .stderr_fd = log_fd.get(),
                         .session = sys::Command::Session::own};
    for (const char* name : {"port", "listen", "config"})
        if (invocation.has(name)) {
            command.argv.push_back(std::string("--") + name);
            const std::string value = invocation.get(name);
            command.argv.push_back(std::string(name) == "config" ? sys::fs::absolute(value).string()
                                                                 : value);
        }
    sys::Child child = sys::Child::spawn(command);
    const Deadline by = Deadline::in(seconds(30));
    while (!by.passed()) {
        if (const auto exit = child.wait(Deadline::in(milliseconds(20))))
            throw_error(Code::internal, "", "the daemon ended at start ({}); its last words:\n{}",
                        sys::describe(*exit), log_tail(log));
        const auto daemon = read_daemon(home);
        if (daemon && daemon->pid == child.pid() && is_healthy(*daemon, Deadline::in(seconds(2)))) {
            child.detach();
            return announce(*daemon, home, "is up");
        }
    }
    throw_error(Code::timed_out, "", "the daemon did not answer within 30 seconds; see {}",
                log.string());
}

}  // namespace

Verb up_verb() {
    return {.name = "up",
            .summary = "start the daemon in the background and wait until it is healthy",
            .options = {{.flags = "--port",
                         .help = "port to listen on; 0 takes a free one",
                         .value = "PORT",
                         .otherwise = "4545, or a free one"},
                        {.flags = "--listen",
                         .help = "address to listen on",
                         .value = "ADDRESS",
                         .otherwise = "127.0.0.1"},
                        {.flags = "--config",
                         .help = "configuration file",
                         .value = "FILE",
                         .otherwise = "<home>/config.toml"}},
            .run = run_up};
}

}  // namespace ty::cli
