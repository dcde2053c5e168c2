// SPDX-License-Identifier: Apache-2.0
// --explain: what a command line means, one decision a line, and nothing started.
#include "agent/launcher/environment.h"
#include "agent/launcher/options/options.h"
#include "agent/launcher/workers/numa.h"
#include "base/error.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ty::agent {

namespace {

class Lines {
public:
    void add(std::string_view topic, const std::string& text) {
        text_ += format("{:<16}{}\n", format("{}:", topic), text);
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

std::string seconds_text(milliseconds time) {
    return format("{} s", static_cast<double>(time.count()) / 1000);
}

std::string streams_text(int bits) {
    static constexpr std::string_view kNames[] = {"nothing", "stdout", "stderr",
                                                  "stdout and stderr"};
    return std::string(kNames[bits & 3]);
}

std::string map_text(const StreamMap& map) {
    if (map.by_rank.empty()) return streams_text(map.all);
    std::string text;
    for (const auto& [rank, bits] : map.by_rank) {
        text += format("{}local rank {}: {}", text.empty() ? "" : "; ", rank, streams_text(bits));
    }
    return text + "; others: nothing";
}

void explain_place(const LaunchOptions& options, Lines& lines) {
    const std::string nodes = options.min_nodes == options.max_nodes
                                  ? format("{}", options.max_nodes)
                                  : format("{} to {}", options.min_nodes, options.max_nodes);
    lines.add("nodes", nodes + " (--nnodes)");
    lines.add("workers", format("{} on this node (--nproc-per-node)", options.workers));
    if (options.node_rank && !options.is_alone()) {
        lines.add("place", format("{} (--node-rank, SLURM_NODEID or JOB_COMPLETION_INDEX)",
                                  *options.node_rank));
    }
    if (options.is_alone()) {
        lines.add("rendezvous", format("inside this process; run id {}", options.rdzv_id));
    } else {
        lines.add("rendezvous", format("{} at {}; run id {}", options.rdzv_backend,
                                       options.rdzv_endpoint, options.rdzv_id));
    }
    if (!options.is_alone()) {
        lines.add("token", options.token.empty()
                               ? "none: whoever reaches the endpoint and knows the run id may join "
                                 "(--rdzv-token-file, TRAINYARD_RDZV_TOKEN)"
                               : "given: nodes without it are refused");
    }
    const bool fixed = options.rdzv_backend == "static" && options.master_port_given;
    lines.add("MASTER_ADDR",
              options.local_addr.empty()
                  ? "address of the node with rank 0, found by its route to the "
                    "endpoint (--local-addr)"
                  : format("{} while this node has rank 0 (--local-addr)", options.local_addr));
    lines.add(
        "MASTER_PORT",
        fixed && options.is_alone()
            ? format("{} (--master-port)", options.master_port)
            : format("{}leased by the node with rank 0 from {} to {}, a new one per generation "
                     "(--port-range)",
                     fixed ? format("{} is where the nodes meet; the workers' own is ",
                                    options.master_port)
                           : std::string(),
                     options.port_low, options.port_high));
    lines.add("agent store", options.agent_store
                                 ? "the workers' TCPStore is hosted here (--agent-store)"
                                 : "rank 0's worker hosts the TCPStore");
}

std::string budget_text(const LaunchOptions& options, const char* cause,
                        std::string_view otherwise) {
    const auto found = options.budgets.find(cause);
    if (found == options.budgets.end()) return std::string(otherwise);
    return found->second == std::numeric_limits<int>::max() ? "unlimited"
                                                            : format("{}", found->second);
}

void explain_recovery(const LaunchOptions& options, Lines& lines) {
    lines.add("restarts",
              format("{} after failures of the program (--max-restarts); counting {}",
                     options.max_restarts, options.torchrun_counting ? "as torchrun" : "by cause"));
    for (const char* cause : {"infrastructure", "preemption", "resize"}) {
        lines.add("budget", format("{}: {}", cause, budget_text(options, cause, "unlimited")));
    }
    lines.add("budget",
              format("hang: {}", budget_text(options, "hang", "as failures of the program")));
    if (!options.is_alone()) {
        lines.add("new nodes",
                  options.resize == "auto"
                      ? format("at the next checkpoint if one can be seen, else now: {}",
                               options.checkpoint_dir.empty() ? "now" : "checkpoint")
                      : options.resize + " (--resize)");
    }
    lines.add("checkpoints",
              format("{}; asked for with {}",
                     options.checkpoint_dir.empty() ? "folder unknown (--checkpoint-dir)"
                                                    : "in " + options.checkpoint_dir,
                     options.checkpoint_signal == 0 ? "nothing (--checkpoint-signal)"
                                                    : sys::signal_name(options.checkpoint_signal)));
    lines.add("hang",
              options.hang_timeout.count() == 0
                  ? "not watched for (--hang-timeout)"
                  : format("no progress for {} is a failure", seconds_text(options.hang_timeout)));
    std::string warm = "interpreters with torch imported stand by for restarts";
    if (!options.warm) warm = "off (--no-warm)";
    if (options.warm && options.no_python && !options.run_path) warm = "not used: --no-python";
    if (options.warm && options.max_restarts == 0 && options.is_alone()) {
        warm = "not used: nothing can restart (--max-restarts 0, one node)";
    }
    lines.add("warm pool", warm);
}

void explain_logs(const LaunchOptions& options, Lines& lines) {
    lines.add("logs", options.log_dir.empty()
                          ? "in a new temporary folder torchelastic_* (--log-dir)"
                          : "in " + options.log_dir);
    lines.add("redirects", map_text(options.redirects) + " to files only (--redirects)");
    lines.add("tee", map_text(options.tee) + " to files and the console (--tee)");
    if (!options.local_ranks_filter.empty()) {
        std::string ranks;
        for (const int rank : options.local_ranks_filter) {
            ranks += format("{}{}", ranks.empty() ? "" : ",", rank);
        }
        lines.add("console", format("only of local ranks {} (--local-ranks-filter)", ranks));
    }
    lines.add("line prefix", options.log_line_prefix_template.empty()
                                 ? format("[{}N]:", options.role)
                                 : options.log_line_prefix_template);
}

void explain_ending(const LaunchOptions& options, Lines& lines) {
    std::string names;
    for (const int number : options.signals) {
        names += format("{}{}", names.empty() ? "" : ", ", sys::signal_name(number));
    }
    lines.add("signals",
              format("{}: passed on; SIGKILL after {} (--shutdown-timeout)",
                     names.empty() ? "none" : names, seconds_text(options.shutdown_timeout)));
    lines.add("early end", format("{} for workers that catch SIGTERM when another has failed "
                                  "(--abort-grace)",
                                  seconds_text(options.abort_grace)));
    std::string sources;
    if (!options.notice_file.empty()) sources += format("; file {}", options.notice_file);
    if (!options.notice_url.empty()) sources += format("; {}", options.notice_url);
    if (options.end_time) {
        sources += format("; {} before {}", seconds_text(options.drain_before),
                          format_iso8601(*options.end_time));
    }
    const bool term = !options.is_alone() || !options.checkpoint_dir.empty();
    lines.add("leave on",
              format("{}SIGUSR1{}; at most {} for a checkpoint (--drain-timeout)",
                     term ? "SIGTERM; " : "", sources, seconds_text(options.drain_timeout)));
    lines.add("exit code", options.semantic_exit_codes ? "tells why (--exit-code-policy semantic)"
                                                       : "0 or 1, as torchrun");
    lines.add("events", options.events.empty() ? "none (--events)" : options.events);
    lines.add("health", options.health_address.empty() ? "not served (--health-address)"
                                                       : options.health_address);
}

/// Quoted for a shell where that is needed.
std::string shell_word(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
    return "'" + replace_all(word, "'", "'\\''") + "'";
}

void explain_cpus(const LaunchOptions& options, Lines& lines) {
    int local_rank = 0;
    for (const auto& cpus : numa_cpus(options.numa_binding, options.workers, this_machine())) {
        std::string list;
        for (const int cpu : cpus) list += format("{}{}", list.empty() ? "" : ",", cpu);
        lines.add("CPUs", format("local rank {}: {} (--numa-binding {})", local_rank++, list,
                                 options.numa_binding));
    }
}

void explain_worker(const LaunchOptions& options, Lines& lines) {
    std::string command;
    for (const std::string& word : worker_command(options, 0)) {
        command += (command.empty() ? "" : " ") + shell_word(word);
    }
    lines.add("command", command);
    if (!options.numa_binding.empty()) explain_cpus(options, lines);
    // The first generation as it looks when the least number of nodes has come and this is rank 0.
    const rendezvous::Assignment first{
        .generation = 1,
        .group_world_size = options.min_nodes,
        .world_size = options.min_nodes * options.workers,
        .role_world_size = options.min_nodes * options.workers,
        .master_address = "<address>",
        .master_port = options.is_alone() && options.master_port_given ? options.master_port
                                                                       : options.port_low};
    const Variables inherited = Variables::inherited();
    const auto known = inherited.list();
    const std::set<std::string> before(known.begin(), known.end());
    for (const std::string& variable :
         worker_environment(options, inherited, first,
                            {.local_rank = 0,
                            .error_file = "<log folder>/attempt_0/0/error.json",
                            .request_file = "<temporary folder>/checkpoint_request.json"})) {
        if (!before.contains(variable)) lines.add("environment", variable);
    }
}

}  // namespace

std::string explain(const LaunchOptions& options) {
    Lines lines;
    explain_place(options, lines);
    explain_recovery(options, lines);
    explain_logs(options, lines);
    explain_ending(options, lines);
    try {
        explain_worker(options, lines);
    } catch (const Error& error) {
        lines.add("would fail", error.what());
    }
    return lines.take();
}

}  // namespace ty::agent
