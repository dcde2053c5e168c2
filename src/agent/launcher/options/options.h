// SPDX-License-Identifier: Apache-2.0
// The command line of `trainyard run`: every flag and PET_* variable of torchrun 2.13, and ours.
//
// Precedence: flag, PET_<NAME>, default. Dashes and underscores are the same. Nothing here touches
// the network or starts anything; a wrong line yields one message that names the flag and the
// value.
#pragma once

#include "base/time.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace ty::agent {

/// Where a standard stream goes: torchrun's 0 (nowhere), 1 (out), 2 (err), 3 (both), for all local
/// ranks or by rank ("0:3,1:0"; ranks of any number of digits).
struct StreamMap {
    int all = 0;
    std::map<int, int> by_rank;
    /// The bits for one local rank: 1 = stdout, 2 = stderr.
    int of(int local_rank) const {
        const auto it = by_rank.find(local_rank);
        return it != by_rank.end() ? it->second : by_rank.empty() ? all : 0;
    }
};

struct LaunchOptions {
    // ---- torchrun's
    int min_nodes = 1, max_nodes = 1;
    int workers = 1;  ///< --nproc-per-node, resolved to a number
    std::string rdzv_backend = "static";
    std::string rdzv_endpoint;
    std::string rdzv_id = "none";
    std::map<std::string, std::string> rdzv_conf;
    bool standalone = false;
    int max_restarts = 0;
    milliseconds monitor_interval{100};  ///< accepted; workers are watched without polling
    std::string start_method = "spawn";
    std::string event_log_handler = "null";
    std::string role = "default";
    bool module = false, no_python = false, run_path = false;
    std::string log_dir;  ///< empty: a fresh folder below the temporary one
    StreamMap redirects, tee;
    std::set<int> local_ranks_filter;  ///< empty: all
    std::string log_line_prefix_template;
    std::vector<std::string> duplicate_stdout_filters, duplicate_stderr_filters;
    std::optional<int> node_rank;
    std::string master_addr = "127.0.0.1";
    int master_port = 29500;
    bool master_port_given = false;
    std::string local_addr;
    std::string numa_binding;
    std::vector<int> signals;  ///< --signals-to-handle, as numbers
    std::string signals_text;  ///< as TORCHELASTIC_SIGNALS_TO_HANDLE wants it
    milliseconds shutdown_timeout{30000};
    bool virtual_local_rank = false;
    std::string script;
    std::vector<std::string> script_args;

    // ---- ours
    bool agent_store = false;            ///< host the workers' TCPStore (USE_AGENT_STORE=True)
    bool warm = true;                    ///< --no-warm: no standby interpreters
    bool torchrun_counting = false;      ///< --restart-counting torchrun
    std::map<std::string, int> budgets;  ///< --budget infrastructure=5,hang=1
    std::string token;                   ///< TRAINYARD_RDZV_TOKEN or --rdzv-conf token_file=
    std::string checkpoint_dir;          ///< where complete checkpoints appear; empty: unknown
    int checkpoint_signal = 0;           ///< sent to rank leaders that catch it; SIGUSR1 unless set
    milliseconds drain_timeout{120000};  ///< grace when the notice names none
    std::optional<Instant> end_time;     ///< --end-time or SLURM_JOB_END_TIME
    milliseconds drain_before{120000};   ///< how long before end_time to drain
    std::string notice_file, notice_url;
    milliseconds hang_timeout{0};  ///< 0: off
    milliseconds abort_grace{
        5000};                    ///< for programs that catch SIGTERM, when a generation ends early
    std::string resize = "auto";  ///< checkpoint, now, never; auto: checkpoint if a folder is known
    std::string events;           ///< file for JSON lines; "-" is stderr; empty: none
    std::string health_address;   ///< host:port of /healthz and /metrics; empty: off
    bool semantic_exit_codes = false;         ///< --exit-code-policy semantic
    int port_low = 20000, port_high = 32700;  ///< --port-range for leased MASTER_PORTs
    bool explain = false;

    // ---- an elastic job's (options/elastic.h)
    bool elastic = false;         ///< the coordinator is no node's; membership comes from variables
    std::string elastic_changes;  ///< what they changed; empty: nothing
    std::string node_socket;      ///< of the agent outside the box; empty: nobody listens

    /// One node, which meets nobody: its coordinator is in the launcher itself.
    bool is_alone() const { return max_nodes == 1 && !elastic; }
};

/// Nothing to launch: print `text` and exit (help, version, a wrong command line).
struct Usage {
    int exit_code = 2;
    std::string text;  ///< to stderr when exit_code is not 0, else stdout
};

/// `words` without the program's name; `env` answers getenv ("" and absent differ).
using EnvLookup = std::optional<std::string> (*)(const std::string& name);
std::variant<LaunchOptions, Usage> parse_launch(const std::vector<std::string>& words,
                                                EnvLookup env);

/// What --explain prints: one decision a line, with where it came from.
std::string explain(const LaunchOptions& options);

}  // namespace ty::agent
