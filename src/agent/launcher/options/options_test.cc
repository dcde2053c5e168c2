// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/options/options.h"
#include "agent/launcher/options/flags.h"
#include "agent/launcher/options/macros.h"
#include "base/format.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <limits>

using namespace ty;
using namespace ty::agent;

namespace {

using Words = std::vector<std::string>;

std::optional<std::string> no_variables(const std::string&) {
    return std::nullopt;
}

LaunchOptions parsed(const Words& words, EnvLookup env = no_variables) {
    auto result = parse_launch(words, env);
    if (const auto* usage = std::get_if<Usage>(&result)) FAIL(usage->text);
    return std::get<LaunchOptions>(result);
}

/// The text after "error: ".
std::string refusal(const Words& words, EnvLookup env = no_variables) {
    const auto result = parse_launch(words, env);
    const auto* usage = std::get_if<Usage>(&result);
    REQUIRE(usage != nullptr);
    CHECK(usage->exit_code == 2);
    CHECK(usage->text.starts_with("usage: trainyard run"));
    const std::size_t at = usage->text.find("trainyard run: error: ");
    REQUIRE(at != std::string::npos);
    return usage->text.substr(at + 22);
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("a bare script runs one worker on one node, which meets nobody") {
    const LaunchOptions options = parsed({"train.py", "--lr", "3"});
    CHECK(options.script == "train.py");
    CHECK(options.script_args == Words{"--lr", "3"});
    CHECK(options.workers == 1);
    CHECK(options.max_nodes == 1);
    // torchrun 2.13 does the same when neither an endpoint nor a port is given.
    CHECK(options.rdzv_backend == "c10d");
    CHECK(options.rdzv_endpoint == "localhost:0");
    CHECK(options.rdzv_id.size() == 36);
    CHECK(options.max_restarts == 0);
    CHECK(options.monitor_interval == milliseconds(100));
    CHECK(options.shutdown_timeout == seconds(30));
    CHECK(options.signals == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
    CHECK(options.signals_text == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    CHECK(options.checkpoint_signal == SIGUSR1);
}

TEST_CASE("dashes, underscores, abbreviations and equals signs mean the same flag") {
    CHECK(parsed({"--nproc-per-node", "2", "s"}).workers == 2);
    CHECK(parsed({"--nproc_per_node=3", "s"}).workers == 3);
    CHECK(parsed({"--nproc", "4", "s"}).workers == 4);
    CHECK(parsed({"--max-r", "2", "s"}).max_restarts == 2);
    CHECK(parsed({"--max_r=5", "s"}).max_restarts == 5);
    CHECK(parsed({"--nproc-per-node=2", "--nproc_per_node=5", "s"}).workers == 5);
    CHECK(parsed({"--standalone", "--no_python", "s"}).no_python);
}

TEST_CASE("an abbreviation of one of torchrun's flags is not made ambiguous by ours") {
    CHECK(parsed({"--no-p", "s"}).no_python);
    CHECK(parsed({"--ev", "null", "s"}).event_log_handler == "null");
    CHECK_FALSE(parsed({"--no-w", "s"}).warm);
    const std::string text = refusal({"--rdzv", "x", "s"});
    CHECK(has(text, "ambiguous option: --rdzv could match --rdzv-backend, --rdzv-endpoint"));
    CHECK_FALSE(has(text, "token"));
}

TEST_CASE("letters take their value attached, apart or after another letter") {
    CHECK(parsed({"-r3", "s"}).redirects.all == 3);
    CHECK(parsed({"-r", "1", "s"}).redirects.all == 1);
    CHECK(parsed({"-t=2", "s"}).tee.all == 2);
    const LaunchOptions both = parsed({"-mr3", "pkg.train"});
    CHECK(both.module);
    CHECK(both.redirects.all == 3);
    CHECK(has(refusal({"-mx", "s"}), "ignored explicit argument 'x'"));
}

TEST_CASE("everything from the script on belongs to the script") {
    const LaunchOptions options =
        parsed({"--nnodes", "1", "s.py", "--nnodes", "9", "-r", "--rdzv", "--", "-h"});
    CHECK(options.script == "s.py");
    CHECK(options.script_args == Words{"--nnodes", "9", "-r", "--rdzv", "--", "-h"});
    CHECK(parsed({"--", "--nnodes", "2"}).script == "--nnodes");
    CHECK(parsed({"--", "s.py", "--foo"}).script_args == Words{"--foo"});
    // argparse swallows one -- straight after the script.
    CHECK(parsed({"s.py", "--", "--foo"}).script_args == Words{"--foo"});
    CHECK(parsed({"s.py", "a", "--", "b"}).script_args == Words{"a", "--", "b"});
    CHECK(parsed({"-", "s"}).script == "-");
    CHECK(parsed({"-5", "s"}).script == "-5");
}

TEST_CASE("a value may start with a dash only as a number, with a blank, or after an equals sign") {
    CHECK(has(refusal({"--log-dir", "-x", "s"}), "expected one argument"));
    CHECK(parsed({"--log-dir", "-x y", "s"}).log_dir == "-x y");
    CHECK(parsed({"--log-dir=-x", "s"}).log_dir == "-x");
    CHECK(has(refusal({"--max-restarts"}), "argument --max-restarts: expected one argument"));
    CHECK(has(refusal({"--max-restarts", "-1", "s"}), "'-1' is too small; the least is 0"));
    CHECK(has(refusal({"--standalone=1", "s"}), "ignored explicit argument '1'"));
}

TEST_CASE("a wrong line names the flag, the value and the remedy") {
    CHECK(has(refusal({}), "the following arguments are required: training_script"));
    const std::string unknown = refusal({"--nproc-per-nod=2", "--nprocs-per-node", "2", "s"});
    CHECK(has(unknown, "unrecognized arguments: --nprocs-per-node"));
    CHECK(has(unknown, "did you mean --nproc-per-node?"));
    CHECK_FALSE(has(refusal({"--zork", "s"}), "did you mean"));
    CHECK(has(refusal({""}), "the name of the training script is empty"));
    CHECK(has(refusal({"--max-restarts", "x", "s"}), "--max-restarts: 'x' is not a whole number"));
    CHECK(has(refusal({"--start-method", "zork", "s"}), "'zork' is not one of spawn, fork"));
    CHECK(has(refusal({"--numa-binding", "zz", "s"}), "node, socket, exclusive, core-complex"));
    CHECK(has(refusal({"--nnodes", "3:2", "s"}), "MIN no more than MAX"));
    CHECK(has(refusal({"--nnodes", "0", "s"}), "at least 1"));
    CHECK(has(refusal({"--nnodes", "1:2:3", "s"}), "MIN:MAX"));
    CHECK(has(refusal({"--nproc-per-node", "tpu", "s"}), "cpu, gpu, xpu, auto"));
    CHECK(has(refusal({"--rdzv-backend", "etcd-v2", "--nnodes", "2", "s"}), "use c10d"));
    CHECK(has(refusal({"--rdzv-backend", "zeus", "s", "--nnodes", "2"}), "unknown rendezvous"));
    CHECK(has(refusal({"--logs-specs", "mine", "s"}), "use --log-dir"));
    CHECK(has(refusal({"-m", "--no-python", "s"}), "exclude each other"));
    CHECK(has(refusal({"--signals-to-handle", "SIGTERM,SIGFOO", "s"}), "SIGFOO"));
    CHECK(has(refusal({"--signals-to-handle", "SIGKILL", "s"}), "no program can handle"));
    CHECK(has(refusal({"--standalone", "--nnodes", "2", "s"}), "--standalone cannot meet"));
    CHECK(has(refusal({"--budget", "application=3", "s"}), "--max-restarts"));
    CHECK(has(refusal({"--port-range", "9-1", "s"}), "LOW-HIGH"));
    CHECK(has(refusal({"--drain-timeout", "soon", "s"}), "'soon' is not a time"));
}

TEST_CASE("PET_ variables are defaults; the command line wins") {
    const EnvLookup env = [](const std::string& name) -> std::optional<std::string> {
        if (name == "PET_NPROC_PER_NODE") return "3";
        if (name == "PET_NNODES") return "2";
        if (name == "PET_NODE_RANK") return "1";
        if (name == "PET_MASTER_ADDR") return "job-node-0-0.job";
        if (name == "PET_MASTER_PORT") return "29500";
        if (name == "PET_MODULE") return "1";
        if (name == "PET_NO_PYTHON") return "0";
        if (name == "PET_TEE") return "3";
        return std::nullopt;
    };
    // What the Kubeflow trainer sets.
    const LaunchOptions options = parsed({"--nproc-per-node=4", "pkg"}, env);
    CHECK(options.workers == 4);
    CHECK(options.min_nodes == 2);
    CHECK(options.rdzv_backend == "static");
    CHECK(options.rdzv_endpoint == "job-node-0-0.job:29500");
    CHECK(options.node_rank == 1);
    CHECK(options.module);
    CHECK_FALSE(options.no_python);
    CHECK(options.tee.all == 3);
}

TEST_CASE("a wrong variable is named in the message") {
    const EnvLookup env = [](const std::string& name) -> std::optional<std::string> {
        if (name == "PET_STANDALONE") return "yes";
        return std::nullopt;
    };
    CHECK(
        has(refusal({"s"}, env), "argument --standalone (PET_STANDALONE): 'yes' is not a number"));
}

TEST_CASE("stream maps take local ranks of any size") {
    const LaunchOptions options = parsed({"-r", "0:3,12:1", "-t", "2", "s"});
    CHECK(options.redirects.of(0) == 3);
    CHECK(options.redirects.of(12) == 1);
    CHECK(options.redirects.of(1) == 0);
    CHECK(options.tee.of(7) == 2);
    for (const char* wrong : {"4", "", "0:", "0:4", ":1", "a:1", "0:1,", "0:1,2", "12"}) {
        CAPTURE(wrong);
        CHECK(has(refusal({"-r", wrong, "s"}), "0:3,1:0"));
    }
}

TEST_CASE("an endpoint gets torchrun's default port") {
    const auto endpoint = [](const char* text) {
        return parsed(
                   {"--nnodes=2", "--rdzv-backend=c10d", format("--rdzv-endpoint={}", text), "s"})
            .rdzv_endpoint;
    };
    CHECK(endpoint("node1") == "node1:29400");
    CHECK(endpoint("node1:1234") == "node1:1234");
    CHECK(endpoint("[::1]") == "[::1]:29400");
    CHECK(endpoint("[::1]:5") == "[::1]:5");
    CHECK(endpoint("a:1,b") == "a:1,b:29400");
    CHECK(endpoint("") == "localhost:29400");
    CHECK(has(refusal({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a:99999", "s"}),
              "port"));
    CHECK(has(refusal({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=::1", "s"}), "[::1]"));
}

TEST_CASE("static takes the workers' meeting point from the master flags or the endpoint") {
    const LaunchOptions flags =
        parsed({"--nnodes=2", "--master-addr=10.0.0.1", "--master-port=1", "s"});
    CHECK(flags.rdzv_endpoint == "10.0.0.1:1");
    CHECK(flags.node_rank == 0);
    CHECK(flags.rdzv_id == "none");
    const LaunchOptions endpoint = parsed({"--nnodes=2", "--rdzv-endpoint=[::1]:7", "s"});
    CHECK(endpoint.master_addr == "::1");
    CHECK(endpoint.master_port == 7);
    CHECK(parsed({"--nnodes=2", "s"}).rdzv_endpoint == "127.0.0.1:29500");
    // One node with a port is static in torchrun, too.
    CHECK(parsed({"--master-port=29501", "s"}).rdzv_backend == "static");
    CHECK(has(refusal({"--nnodes=2", "--rdzv-endpoint=a", "s"}), "write HOST:PORT"));
    CHECK(has(refusal({"--nnodes=2", "--node-rank=2", "s"}), "outside the job's 2 nodes"));
}

TEST_CASE("standalone ignores what was said about the rendezvous") {
    const LaunchOptions options = parsed({"--standalone", "--rdzv-backend=etcd", "--rdzv-id=x",
                                          "--rdzv-endpoint=far:1", "--nnodes=1:4", "s"});
    CHECK(options.rdzv_backend == "c10d");
    CHECK(options.rdzv_endpoint == "localhost:0");
    CHECK(options.rdzv_id != "x");
    CHECK(options.max_nodes == 1);
}

TEST_CASE("elastic nodes take their place from the scheduler when no flag gives one") {
    const EnvLookup slurm = [](const std::string& name) -> std::optional<std::string> {
        if (name == "SLURM_NODEID") return "3";
        if (name == "JOB_COMPLETION_INDEX") return "9";
        if (name == "SLURM_JOB_END_TIME") return "1800000000";
        return std::nullopt;
    };
    const Words c10d = {"--nnodes=2:8", "--rdzv-backend=c10d", "--rdzv-endpoint=a", "s"};
    CHECK(parsed(c10d, slurm).node_rank == 3);
    CHECK(parsed(c10d, slurm).end_time == from_epoch_seconds(1800000000));
    CHECK_FALSE(parsed(c10d).node_rank.has_value());
    Words with_rank = c10d;
    with_rank.insert(with_rank.begin(), {"--node-rank", "5"});
    CHECK(parsed(with_rank, slurm).node_rank == 5);
    CHECK(parsed({"--nnodes=4", "--master-port=1", "s"}, slurm).node_rank == 0);
}

TEST_CASE("times are seconds, or carry a unit") {
    CHECK(parsed({"--drain-timeout=1.5", "s"}).drain_timeout == milliseconds(1500));
    CHECK(parsed({"--hang-timeout=250ms", "s"}).hang_timeout == milliseconds(250));
    CHECK(parsed({"--abort-grace=30s", "s"}).abort_grace == seconds(30));
    CHECK(parsed({"--drain-before=2m", "s"}).drain_before == std::chrono::minutes(2));
    CHECK(parsed({"--shutdown-timeout=1h", "s"}).shutdown_timeout == std::chrono::hours(1));
    CHECK(has(refusal({"--hang-timeout=-1", "s"}), "not a time"));
    CHECK(parsed({"--rdzv-conf", "join_timeout=2m, is_host=1", "s"}).rdzv_conf ==
          std::map<std::string, std::string>{{"is_host", "1"}, {"join_timeout", "120"}});
    CHECK(has(refusal({"--rdzv-conf", "join_timeout", "s"}), "write join_timeout=VALUE"));
    const EnvLookup env = [](const std::string& name) -> std::optional<std::string> {
        if (name == "TORCH_ELASTIC_SHUTDOWN_TIMEOUT") return "7";
        return std::nullopt;
    };
    CHECK(parsed({"s"}, env).shutdown_timeout == seconds(7));
    CHECK(parsed({"--shutdown-timeout", "1", "s"}, env).shutdown_timeout == seconds(1));
}

TEST_CASE("two commas are one comma of a filter text") {
    const LaunchOptions options = parsed({"--duplicate-stdout-filters", "a,,b,c", "s"});
    CHECK(options.duplicate_stdout_filters == Words{"a,b", "c"});
    CHECK(options.duplicate_stderr_filters.empty());
    // In torchrun an empty text matches every line.
    CHECK(parsed({"--duplicate-stderr-filters", "", "s"}).duplicate_stderr_filters == Words{""});
}

TEST_CASE("our own flags are read") {
    const LaunchOptions options = parsed(
        {"--no-warm", "--restart-counting=torchrun", "--budget=hang=1,infrastructure=unlimited",
         "--checkpoint-dir=/c", "--checkpoint-signal=USR2", "--end-time=2030-01-31T12:00:00Z",
         "--resize=never", "--events=-", "--health-address=:9000", "--exit-code-policy=semantic",
         "--port-range=1000-2000", "--explain", "--agent-store", "--use-env", "s"});
    CHECK_FALSE(options.warm);
    CHECK(options.torchrun_counting);
    CHECK(options.budgets.at("hang") == 1);
    CHECK(options.budgets.at("infrastructure") == std::numeric_limits<int>::max());
    CHECK(options.checkpoint_signal == SIGUSR2);
    CHECK(options.end_time == parse_iso8601("2030-01-31T12:00:00Z"));
    CHECK(options.resize == "never");
    CHECK(options.health_address == "0.0.0.0:9000");
    CHECK(options.semantic_exit_codes);
    CHECK(options.port_low == 1000);
    CHECK(options.port_high == 2000);
    CHECK(options.explain);
    CHECK(options.agent_store);
    CHECK(parsed({"--checkpoint-signal=none", "s"}).checkpoint_signal == 0);
}

TEST_CASE("the token comes from a file or a variable") {
    const sys::TempDir dir;
    sys::write_file(dir.path() / "token", "secret\n");
    const std::string file = (dir.path() / "token").string();
    CHECK(parsed({"--rdzv-token-file", file, "s"}).token == "secret");
    CHECK(parsed({"--rdzv-conf", "token_file=" + file, "s"}).token == "secret");
    CHECK(has(refusal({"--rdzv-token-file", file + "x", "s"}), file + "x"));
    const EnvLookup env = [](const std::string& name) -> std::optional<std::string> {
        if (name == "TRAINYARD_RDZV_TOKEN") return "other";
        return std::nullopt;
    };
    CHECK(parsed({"s"}, env).token == "other");
}

namespace {

std::optional<std::string> elastic_variables(const std::string& name) {
    static const std::map<std::string, std::string> kVariables = {
        {"TRAINYARD_ELASTIC_NODES", "1:4"},
        {"TRAINYARD_RDZV_ENDPOINT", "10.84.255.254:29400"},
        {"TRAINYARD_RDZV_ID", "job.1"},
        {"TRAINYARD_RDZV_TOKEN", "secret"},
        {"TRAINYARD_NODE_SLOT", "2"},
        {"TRAINYARD_NODE_SOCKET", "/run/node"},
        {"TRAINYARD_CHECKPOINT_DIR", "/opt/ml/checkpoints"},
        {"TRAINYARD_MAX_RESTARTS", "3"},
        {"PET_NNODES", "5"},
        {"SLURM_NODEID", "7"}};
    const auto found = kVariables.find(name);
    return found == kVariables.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> half_of_the_variables(const std::string& name) {
    return name == "TRAINYARD_ELASTIC_NODES" ? std::optional<std::string>("1:4") : std::nullopt;
}

}  // namespace

TEST_CASE("the variables of an elastic job take the place of what the command line says") {
    const LaunchOptions options =
        parsed({"--nnodes", "2", "--node-rank=1", "--master-addr", "algo-1", "--master-port",
                "7777", "--rdzv-backend", "etcd", "--nproc-per-node", "8", "--max-restarts=0",
                "--budget", "hang=1", "--rdzv-id", "job.1", "train.py", "--nnodes", "9"},
               elastic_variables);
    CHECK(options.elastic);
    CHECK(options.min_nodes == 1);
    CHECK(options.max_nodes == 4);
    CHECK(options.rdzv_backend == "c10d");
    CHECK(options.rdzv_endpoint == "10.84.255.254:29400");
    CHECK(options.rdzv_id == "job.1");
    CHECK(options.token == "secret");
    CHECK(options.node_rank == 2);
    CHECK(options.max_restarts == 3);
    CHECK(options.checkpoint_dir == "/opt/ml/checkpoints");
    CHECK(options.node_socket == "/run/node");
    CHECK(options.budgets.empty());
    CHECK(options.semantic_exit_codes);
    CHECK(options.shutdown_timeout == seconds(120));
    CHECK(options.workers == 8);
    CHECK(options.script_args == Words{"--nnodes", "9"});
    CHECK(options.elastic_changes ==
          "--nnodes 2 becomes 1:4, --node-rank 1 becomes 2, --max-restarts 0 becomes 3, "
          "--rdzv-backend etcd becomes c10d, --master-addr does not count, "
          "--master-port does not count, --budget does not count");
}

TEST_CASE("an elastic job says nothing where the command line says nothing else") {
    const EnvLookup env = [](const std::string& name) {
        return name == "PET_NNODES" ? std::nullopt : elastic_variables(name);
    };
    const LaunchOptions options =
        parsed({"--shutdown-timeout", "5", "--rdzv-backend=c10d", "train.py"}, env);
    CHECK(options.elastic_changes.empty());
    CHECK(options.shutdown_timeout == seconds(5));
    CHECK_FALSE(options.is_alone());
}

TEST_CASE("an elastic job names the variables it was started without, and what stands in them") {
    CHECK(has(refusal({"s"}, half_of_the_variables),
              "TRAINYARD_ELASTIC_NODES is set and TRAINYARD_RDZV_ENDPOINT is not"));
    const EnvLookup wrong = [](const std::string& name) {
        return name == "TRAINYARD_NODE_SLOT" ? std::optional<std::string>("x")
                                             : elastic_variables(name);
    };
    CHECK(has(refusal({"s"}, wrong), "TRAINYARD_NODE_SLOT"));
}

TEST_CASE("--standalone and a token file are the job's to overrule, too") {
    const LaunchOptions options = parsed(
        {"--standalone", "--nnodes=1:4", "--rdzv-token-file", "/nowhere", "s"}, elastic_variables);
    CHECK_FALSE(options.standalone);
    CHECK(options.token == "secret");
    CHECK(options.elastic_changes ==
          "--standalone does not count, --rdzv-token-file does not count");
}

TEST_CASE("help names every flag and ends well") {
    const auto result = parse_launch({"--nnodes=2", "--help"}, no_variables);
    const auto* usage = std::get_if<Usage>(&result);
    REQUIRE(usage != nullptr);
    CHECK(usage->exit_code == 0);
    for (const Flag& flag : launch_flags()) {
        CAPTURE(flag.name);
        CHECK(has(usage->text, format("--{}", flag.name)));
    }
    CHECK(std::holds_alternative<Usage>(parse_launch({"-h"}, no_variables)));
    // A script's own -h is not ours.
    CHECK(parsed({"s.py", "-h"}).script_args == Words{"-h"});
}

TEST_CASE("explain says what would run, without running it") {
    const LaunchOptions options =
        parsed({"--nproc-per-node=2", "--max-restarts=3", "-t", "3", "train.py", "--out", "a b"});
    const std::string text = explain(options);
    CHECK(has(text, "workers:        2 on this node"));
    CHECK(has(text, "-u train.py --out 'a b'"));
    CHECK(has(text, "environment:    WORLD_SIZE=2"));
    CHECK(has(text, "tee:            stdout and stderr"));
    CHECK(has(text, "restarts:       3"));
}

TEST_CASE("macros are replaced as Python's templates do") {
    const std::map<std::string, std::string, std::less<>> values = {{"local_rank", "3"}};
    CHECK(substitute("--r=${local_rank}/$local_rank", values) == "--r=3/3");
    CHECK(substitute("$local_rankx ${other} $ ${ ${local_rank", values) ==
          "$local_rankx ${other} $ ${ ${local_rank");
    CHECK(substitute("$$local_rank $$", values) == "$local_rank $");
    CHECK(substitute("", values).empty());
}
