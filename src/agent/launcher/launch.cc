// SPDX-License-Identifier: Apache-2.0
// From the command line to a guarded launcher.
#include "agent/launcher/launch.h"

#include "agent/launcher/node_agent.h"
#include "agent/launcher/options/options.h"
#include "agent/launcher/workers/guard.h"
#include "base/error.h"
#include "base/format.h"
#include "base/log.h"
#include "sys/sys.h"

#include <cstdlib>

namespace ty::agent {

namespace {

std::optional<std::string> environment_variable(const std::string& name) {
    const char* value = ::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
}

/// torchrun's LOGLEVEL; ours are written at WARNING and above unless it says otherwise.
void set_log_level() {
    const std::string level = environment_variable("LOGLEVEL").value_or("WARNING");
    log::set_level(level == "DEBUG"                          ? log::Level::debug
                   : level == "INFO"                         ? log::Level::info
                   : level == "ERROR" || level == "CRITICAL" ? log::Level::error
                                                             : log::Level::warning);
}

constexpr const char* kThreadsWarning =
    "\n*****************************************\n"
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid "
    "your system being overloaded, please further tune the variable for optimal performance in "
    "your application as needed. \n"
    "*****************************************\n";

/// Before a worker ran: what the command line says cannot be done here, or not now.
int semantic_code(Code code) {
    constexpr int kConfiguration = 78, kRequeue = 75;
    return code == Code::invalid || code == Code::conflict || code == Code::not_found
               ? kConfiguration
               : kRequeue;
}

int run_node(const LaunchOptions& options) {
    const SystemClock clock;
    try {
        NodeAgent node(options, clock);
        return node.run();
    } catch (const Error& error) {
        sys::write_all(2, format("trainyard run: {}\n", error.what()));
        if (options.semantic_exit_codes) return semantic_code(error.code());
    } catch (const std::exception& error) {
        sys::write_all(2, format("trainyard run: internal error: {}\n", error.what()));
        return options.semantic_exit_codes ? 70 : 1;
    }
    return 1;
}

}  // namespace

int launch_main(const std::vector<std::string>& words) {
    const std::variant<LaunchOptions, Usage> parsed = parse_launch(words, environment_variable);
    if (const auto* usage = std::get_if<Usage>(&parsed)) {
        sys::write_all(usage->exit_code == 0 ? 1 : 2, usage->text);
        return usage->exit_code;
    }
    const LaunchOptions& options = std::get<LaunchOptions>(parsed);
    if (options.explain) {
        sys::write_all(1, explain(options));
        return 0;
    }
    set_log_level();
    if (!options.elastic_changes.empty()) {
        sys::write_all(
            2, format("trainyard run: launched as an elastic job: {}\n", options.elastic_changes));
    }
    if (options.workers > 1 && ::getenv("OMP_NUM_THREADS") == nullptr) {
        sys::write_all(2, kThreadsWarning);
    }
    return run_guarded([&options] { return run_node(options); });
}

}  // namespace ty::agent
