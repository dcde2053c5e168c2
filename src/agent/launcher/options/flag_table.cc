// SPDX-License-Identifier: Apache-2.0
// Every flag of `trainyard run` with its explanation, and --help made from them.
#include "agent/launcher/options/flags.h"
#include "base/format.h"

#include <array>

namespace ty::agent {

namespace {

using enum Topic;
constexpr auto kOurs = Origin::ours;
constexpr auto kTorchrun = Origin::torchrun;
constexpr auto kEnv = FromEnv::yes;
constexpr auto kNoEnv = FromEnv::no;

constexpr auto kFlags = std::to_array<Flag>({
    {"nnodes", 0, "N|MIN:MAX", nodes, kTorchrun, kEnv, "number of nodes, or a range (1:1)"},
    {"nproc-per-node", 0, "N", nodes, kTorchrun, kEnv,
     "workers on this node: a number, cpu, gpu, or auto: GPUs if there are any, else CPUs (1)"},
    {"node-rank", 0, "N", nodes, kTorchrun, kEnv,
     "this node's place, kept over restarts; c10d: else SLURM_NODEID, JOB_COMPLETION_INDEX "
     "(static: 0)"},
    {"local-addr", 0, "ADDRESS", nodes, kTorchrun, kEnv,
     "address under which the other nodes reach this one (found by itself)"},
    {"role", 0, "NAME", nodes, kTorchrun, kEnv, "ROLE_NAME, also in the log prefix (default)"},

    {"rdzv-backend", 0, "NAME", rendezvous, kTorchrun, kEnv, "static or c10d (static)"},
    {"rdzv-endpoint", 0, "HOST[:PORT],...", rendezvous, kTorchrun, kEnv,
     "where the nodes meet, port 29400 unless given; further places are tried in turn"},
    {"rdzv-id", 0, "ID", rendezvous, kTorchrun, kEnv,
     "name of the job, the same on all nodes (none)"},
    {"rdzv-conf", 0, "K=V,...", rendezvous, kTorchrun, kEnv,
     "join_timeout, last_call_timeout, token_file and torchrun's other keys"},
    {"standalone", 0, "", rendezvous, kTorchrun, kEnv, "one node, no endpoint; ignores --rdzv-*"},
    {"master-addr", 0, "ADDRESS", rendezvous, kTorchrun, kEnv,
     "static: address of node 0 (127.0.0.1)"},
    {"master-port", 0, "PORT", rendezvous, kTorchrun, kEnv, "static: port of node 0 (29500)"},
    {"rdzv-token-file", 0, "FILE", rendezvous, kOurs, kEnv,
     "secret that every node must know; or the variable TRAINYARD_RDZV_TOKEN"},
    {"port-range", 0, "LOW-HIGH", rendezvous, kOurs, kEnv,
     "where MASTER_PORT comes from (20000-32700)"},
    {"agent-store", 0, "", rendezvous, kOurs, kEnv,
     "host the workers' TCPStore in the launcher: TORCHELASTIC_USE_AGENT_STORE=True"},

    {"module", 'm', "", workers, kTorchrun, kEnv, "the script is a module, as in python -m"},
    {"no-python", 0, "", workers, kTorchrun, kEnv, "run the script itself, without python"},
    {"run-path", 0, "", workers, kTorchrun, kEnv, "run the script with runpy.run_path"},
    {"start-method", 0, "NAME", workers, kTorchrun, kEnv,
     "spawn, fork or forkserver; accepted, of no effect for scripts (spawn)"},
    {"virtual-local-rank", 0, "", workers, kTorchrun, kEnv,
     "LOCAL_RANK=0 everywhere, CUDA_VISIBLE_DEVICES narrowed to one GPU per worker"},
    {"numa-binding", 0, "MODE", workers, kTorchrun, kNoEnv,
     "CPUs near the worker's GPU: node, socket, exclusive, core-complex"},
    {"use-env", 0, "", workers, kTorchrun, kNoEnv, "accepted; ranks are always in the environment"},
    {"no-warm", 0, "", workers, kOurs, kEnv, "keep no interpreters ready for restarts"},

    {"log-dir", 0, "DIR", logs, kTorchrun, kEnv, "folder of the log files (a new temporary one)"},
    {"redirects", 'r', "STREAMS", logs, kTorchrun, kEnv,
     "to files only: 0 none, 1 stdout, 2 stderr, 3 both; or by local rank: 0:3,1:0 (0)"},
    {"tee", 't', "STREAMS", logs, kTorchrun, kEnv,
     "to files and to the console, written like --redirects (0)"},
    {"local-ranks-filter", 0, "N,...", logs, kTorchrun, kEnv,
     "only these local ranks on the console"},
    {"log-line-prefix-template", 0, "TEXT", logs, kTorchrun, kEnv,
     "with ${role_name} ${local_rank} ${rank} ${hostname} ([${role_name}${local_rank}]:)"},
    {"duplicate-stdout-filters", 0, "TEXT,...", logs, kTorchrun, kEnv,
     "teed lines with any of these texts go to filtered_stdout.log too; ,, is a comma"},
    {"duplicate-stderr-filters", 0, "TEXT,...", logs, kTorchrun, kEnv, "the same for stderr"},
    {"logs-specs", 0, "NAME", logs, kTorchrun, kNoEnv, "refused: a Python plugin"},

    {"max-restarts", 0, "N", recovery, kTorchrun, kEnv,
     "restarts after failures of the program (0)"},
    {"restart-counting", 0, "WAY", recovery, kOurs, kEnv,
     "torchrun: --budget does not count, only failures raise TORCHELASTIC_RESTART_COUNT "
     "(by-cause)"},
    {"budget", 0, "CAUSE=N,...", recovery, kOurs, kEnv,
     "restarts by cause: infrastructure, preemption, resize, hang; N or unlimited"},
    {"resize", 0, "WHEN", recovery, kOurs, kEnv,
     "use new nodes: checkpoint, now, never; auto: checkpoint with --checkpoint-dir, else now "
     "(auto)"},
    {"checkpoint-dir", 0, "DIR", recovery, kOurs, kEnv,
     "where complete checkpoints appear; or the variable TRAINYARD_CHECKPOINT_DIR"},
    {"checkpoint-signal", 0, "SIGNAL", recovery, kOurs, kEnv,
     "asks programs that catch it for a checkpoint; none: do not ask (SIGUSR1)"},
    {"hang-timeout", 0, "TIME", recovery, kOurs, kEnv,
     "no progress for so long is a failure (off)"},
    {"abort-grace", 0, "TIME", recovery, kOurs, kEnv,
     "for programs that catch SIGTERM when the others have failed (5s)"},

    {"signals-to-handle", 0, "NAMES", leaving, kTorchrun, kEnv,
     "signals that end the job in order (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
    {"shutdown-timeout", 0, "TIME", leaving, kTorchrun, kEnv,
     "from the signal to SIGKILL; or the variable TORCH_ELASTIC_SHUTDOWN_TIMEOUT (30s)"},
    {"drain-timeout", 0, "TIME", leaving, kOurs, kEnv,
     "time for a checkpoint before leaving when the notice names none (2m)"},
    {"end-time", 0, "TIME", leaving, kOurs, kEnv,
     "when this machine goes away: ISO 8601 or epoch seconds; or the variable SLURM_JOB_END_TIME"},
    {"drain-before", 0, "TIME", leaving, kOurs, kEnv,
     "start leaving so long before --end-time (2m)"},
    {"notice-file", 0, "FILE", leaving, kOurs, kEnv, "leave when this file appears"},
    {"notice-url", 0, "URL", leaving, kOurs, kEnv, "leave when this address says so"},

    {"monitor-interval", 0, "TIME", observing, kTorchrun, kEnv,
     "accepted; workers are watched without polling (0.1)"},
    {"event-log-handler", 0, "NAME", observing, kTorchrun, kEnv, "null or console (null)"},
    {"events", 0, "FILE", observing, kOurs, kEnv, "one JSON line per event; - is stderr"},
    {"health-address", 0, "HOST:PORT", observing, kOurs, kEnv,
     "serve /healthz and /metrics; or the variable TORCHELASTIC_HEALTH_CHECK_PORT"},
    {"exit-code-policy", 0, "WAY", observing, kOurs, kEnv,
     "torchrun: 0 or 1; semantic: the exit code tells why (torchrun)"},
    {"explain", 0, "", observing, kOurs, kNoEnv, "say what would be done and why; start nothing"},
    {"print-completion", 0, "SHELL", observing, kTorchrun, kNoEnv, "refused: needs Python"},
});

struct TopicTitle {
    Topic topic;
    std::string_view title;
};
constexpr std::array<TopicTitle, 7> kTitles{{{nodes, "Nodes"},
                                             {rendezvous, "Rendezvous"},
                                             {workers, "Workers"},
                                             {logs, "Logs"},
                                             {recovery, "Failures and new nodes"},
                                             {leaving, "Ending and preemption"},
                                             {observing, "Observation"}}};

/// Words of `text` in lines of at most 96 columns, each indented by `indent`.
std::string wrapped(std::string_view text, std::size_t indent) {
    constexpr std::size_t kWidth = 96;
    std::string out(indent, ' ');
    std::size_t column = indent;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (column > indent && column + 1 + end > kWidth) {
            out += '\n';
            out.append(indent, ' ');
            column = indent;
        }
        if (column > indent) {
            out += ' ';
            ++column;
        }
        out += text.substr(0, end);
        column += end;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out + "\n";
}

std::string heading(const Flag& flag) {
    std::string line = "  ";
    if (flag.letter != 0) line += format("-{}, ", flag.letter);
    line += format("--{}", flag.name);
    if (!flag.meta.empty()) line += format(" {}", flag.meta);
    if (flag.origin == kOurs) line += "  *";
    return line + "\n";
}

constexpr std::string_view kHelpEnd =
    "\nFlags with * are not torchrun's. A default stands at the end, in parentheses.\n"
    "Dashes and underscores are the same; unambiguous abbreviations and --flag=value work.\n"
    "Every flag but --numa-binding, --use-env and --explain may be given as the variable\n"
    "PET_<FLAG>, for example PET_NNODES; switches as 0 or 1. The command line wins.\n"
    "A TIME is a number of seconds, or a number with ms, s, m or h.\n"
    "${local_rank} in the script's arguments becomes the worker's local rank.\n"
    "Python programs run in PYTHON_EXEC, else in the first python3 or python of PATH.\n"
    "Exit codes: 0 all workers ended well, 1 the job failed, 2 a wrong command line; more with\n"
    "--exit-code-policy semantic.\n";

}  // namespace

std::span<const Flag> launch_flags() {
    return kFlags;
}

std::string_view launch_usage() {
    return "usage: trainyard run [FLAG...] SCRIPT [ARGUMENT...]\n"
           "       trainyard run --help\n";
}

std::string launch_help() {
    std::string text(launch_usage());
    text += "\nStart and supervise the workers of a distributed training job, as torchrun does.\n";
    for (const TopicTitle& topic : kTitles) {
        text += format("\n{}:\n", topic.title);
        for (const Flag& flag : kFlags) {
            if (flag.topic == topic.topic) text += heading(flag) + wrapped(flag.help, 8);
        }
    }
    text += kHelpEnd;
    return text;
}

}  // namespace ty::agent
