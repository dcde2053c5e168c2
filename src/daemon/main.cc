// SPDX-License-Identifier: Apache-2.0
// trainyardd: flags -> config -> parts -> run until SIGTERM. Started by `trainyard up` or an init
// system.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/config.h"
#include "daemon/environments.h"
#include "daemon/wire.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdlib>
#include <map>

namespace {

using namespace ty;

constexpr std::string_view kUsage =
    "usage: trainyardd [--home DIR] [--config FILE] [--listen ADDRESS] [--port PORT] "
    "[--environments]\n";

std::map<std::string, std::string> read_flags(int argc, char** argv) {
    std::map<std::string, std::string> flags;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "--environments" || name == "--help") {
            flags[name] = "true";
        } else if ((name == "--home" || name == "--config" || name == "--listen" ||
                    name == "--port") &&
                   i + 1 < argc) {
            flags[name] = argv[++i];
        } else {
            throw_error(Code::invalid, "", "unknown or incomplete flag {}; {}", name, kUsage);
        }
    }
    return flags;
}

sys::fs::path default_home() {
    const char* home = std::getenv("HOME");
    return sys::fs::path(home == nullptr ? "/" : home) / ".trainyard";
}

daemon::Config load(const std::map<std::string, std::string>& flags) {
    const auto flag = [&](const char* name) {
        return flags.contains(name) ? flags.at(name) : std::string();
    };
    const sys::fs::path home =
        sys::fs::absolute(flag("--home").empty() ? default_home() : sys::fs::path(flag("--home")));
    const sys::fs::path file =
        flag("--config").empty() ? home / "config.toml" : sys::fs::path(flag("--config"));
    daemon::Config config = daemon::read_config(home, file, !flag("--config").empty());
    if (!flag("--listen").empty()) config.listen = flag("--listen");
    if (!flag("--port").empty()) {
        const auto port = parse_int(flag("--port"));
        if (!port || *port < 0 || *port > 65535)
            throw_error(Code::invalid, "", "--port {} is not a port number", flag("--port"));
        config.port = std::uint16_t(*port);
    }
    return config;
}

/// One JSON document for `trainyard doctor`.
int print_environments(const daemon::Config& config) {
    const images::Catalogue catalogue = daemon::open_catalogue(config);
    Json rows = Json::array();
    for (const auto& row : catalogue.rows())
        rows.push_back({{"name", row.name}, {"usable", row.usable}, {"state", row.state}});
    sys::write_all(1, dump_json({{"environments", rows}}) + "\n");
    return 0;
}

int run(int argc, char** argv) {
    const auto flags = read_flags(argc, argv);
    if (flags.contains("--help")) {
        sys::write_all(1, kUsage);
        return 0;
    }
    const daemon::Config config = load(flags);
    if (flags.contains("--environments")) return print_environments(config);
    sys::SignalFd signals({SIGTERM, SIGINT, SIGHUP});
    const daemon::Daemon daemon(config);
    log::info("listening", {{"endpoint", daemon.endpoint()}, {"home", config.home.string()}});
    int signal = 0;
    while (signal == 0 || signal == SIGHUP) {  // SIGHUP: the terminal that started us closed
        sys::wait(signals.fd(), sys::Readiness::readable, Deadline::never());
        signal = signals.next();
    }
    log::info("stopping", {{"signal", sys::signal_name(signal)}});
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    ty::sys::ignore_sigpipe();
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        ty::log::error("cannot run", {{"why", error.what()}});
        return 1;
    }
}
