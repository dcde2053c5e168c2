// SPDX-License-Identifier: Apache-2.0
// From a split command line to LaunchOptions: defaults, variables and what torchrun derives.
#include "agent/launcher/options/options.h"
#include "agent/launcher/options/elastic.h"
#include "agent/launcher/options/option_values.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "sys/sys.h"

#include <limits>
#include <tuple>

namespace ty::agent {

namespace {

constexpr int kDefaultRendezvousPort = 29400;  // torchrun's, for c10d
constexpr std::string_view kDefaultSignals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

/// The values of one command line; a flag that was not given answers with a default.
class Values {
public:
    Values(SplitLine line, EnvLookup lookup) : line_(std::move(line)), env_(lookup) {}

    EnvLookup env() const { return env_; }
    const std::vector<std::string>& rest() const { return line_.rest; }
    bool has(std::string_view flag) const { return line_.values.contains(flag); }

    FlagText value(std::string_view flag, std::string_view otherwise = "") const {
        const auto found = line_.values.find(flag);
        if (found != line_.values.end()) return FlagText(flag, found->second);
        return FlagText(flag, {std::string(otherwise), "--default"});
    }
    std::string text(std::string_view flag, std::string_view otherwise = "") const {
        return value(flag, otherwise).text();
    }
    bool on(std::string_view flag) const { return has(flag) && value(flag).on(); }
    milliseconds duration(std::string_view flag, milliseconds otherwise) const {
        return has(flag) ? value(flag).duration() : otherwise;
    }
    int number(std::string_view flag, int otherwise, int low,
               int high = std::numeric_limits<int>::max()) const {
        return has(flag) ? value(flag).number(low, high) : otherwise;
    }
    /// The flag, else one of the environment's other variables, as if it had been the flag.
    std::optional<FlagText> or_variable(std::string_view flag, const char* variable) const {
        if (has(flag)) return value(flag);
        const auto text = env_(variable);
        if (!text || text->empty()) return std::nullopt;
        return FlagText(flag, {*text, variable});
    }

private:
    SplitLine line_;
    EnvLookup env_;
};

void refuse_plugins(const Values& values) {
    if (values.has("logs-specs")) {
        values.value("logs-specs")
            .refuse(
                "is a Python plugin, which this launcher cannot load; use --log-dir, --redirects, "
                "--tee");
    }
    if (values.has("print-completion")) {
        values.value("print-completion").refuse("needs Python's shtab; use torchrun for it");
    }
}

void check_backend(const FlagText& backend) {
    const std::string& name = backend.text();
    if (name == "static" || name == "c10d") return;
    if (name == "etcd" || name == "etcd-v2") {
        backend.refuse(
            "needs an etcd server, which this launcher does without; use c10d with "
            "--rdzv-endpoint HOST:PORT of any one node");
    }
    backend.refuse("is an unknown rendezvous backend; use static or c10d");
}

/// --node-rank, else what the scheduler says. static has no other source in torchrun, so it is 0.
std::optional<int> node_rank(const Values& values, const LaunchOptions& options) {
    if (values.has("node-rank")) {
        return values.value("node-rank").number(0, std::numeric_limits<int>::max());
    }
    if (options.rdzv_backend == "static") return 0;
    for (const char* variable : {"SLURM_NODEID", "JOB_COMPLETION_INDEX"}) {
        const auto text = values.env()(variable);
        const auto number = parse_int(text.value_or(""));
        if (number && *number >= 0 && *number <= std::numeric_limits<int>::max()) {
            return static_cast<int>(*number);
        }
    }
    return std::nullopt;
}

/// What torchrun does when nobody said where to meet and there is nobody to meet.
void meet_alone(LaunchOptions& options) {
    options.rdzv_backend = "c10d";
    options.rdzv_endpoint = "localhost:0";
    options.rdzv_id = SystemIds().uuid();
}

/// static: workers meet where the nodes do, as under torchrun.
void take_master_from_endpoint(LaunchOptions& options) {
    const std::string first = split(options.rdzv_endpoint, ',').front();
    const std::size_t colon = first.rfind(':');
    std::string host = first.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    options.master_addr = host;
    options.master_port = static_cast<int>(*parse_int(first.substr(colon + 1)));
}

void read_rendezvous(const Values& values, LaunchOptions& options) {
    std::tie(options.min_nodes, options.max_nodes) = node_range(values.value("nnodes", "1:1"));
    options.rdzv_backend = values.text("rdzv-backend", "static");
    options.rdzv_endpoint = values.text("rdzv-endpoint");
    options.rdzv_id = values.text("rdzv-id", "none");
    options.rdzv_conf = rendezvous_conf(values.value("rdzv-conf"));
    options.standalone = values.on("standalone");
    options.master_addr = values.text("master-addr", "127.0.0.1");
    options.master_port_given = values.has("master-port");
    options.master_port = values.number("master-port", 29500, 0, 65535);
    options.local_addr = values.text("local-addr");

    const bool nowhere = trim(options.rdzv_endpoint).empty();
    if (options.standalone) {
        if (options.min_nodes > 1) {
            values.value("nnodes").refuse(
                "asks for other nodes, which --standalone cannot meet; "
                "use --rdzv-backend c10d --rdzv-endpoint HOST:PORT");
        }
        options.max_nodes = 1;
        meet_alone(options);
    } else if (options.rdzv_backend == "static" && nowhere && !options.master_port_given &&
               options.max_nodes == 1) {
        meet_alone(options);
    } else {
        check_backend(values.value("rdzv-backend", "static"));
        if (options.rdzv_backend == "c10d") {
            options.rdzv_endpoint =
                endpoints(nowhere ? FlagText("rdzv-endpoint", {"localhost", "--default"})
                                  : values.value("rdzv-endpoint"),
                          kDefaultRendezvousPort);
        } else if (nowhere) {
            options.rdzv_endpoint = endpoints(
                FlagText("master-addr", {format("{}:{}", options.master_addr, options.master_port),
                                         "--master-addr"}),
                -1);
        } else {
            options.rdzv_endpoint = endpoints(values.value("rdzv-endpoint"), -1);
            if (options.rdzv_endpoint.ends_with(":-1")) {
                values.value("rdzv-endpoint").refuse("has no port; write HOST:PORT");
            }
        }
        if (options.rdzv_backend == "static") take_master_from_endpoint(options);
    }
    // An empty id is torchrun's way to ask for a random one.
    if (options.rdzv_id.empty()) options.rdzv_id = SystemIds().uuid();
    options.node_rank = node_rank(values, options);
    if (options.rdzv_backend == "static" && options.node_rank.value_or(0) >= options.max_nodes) {
        values.value("node-rank")
            .refuse(format("is outside the job's {} nodes; they count from 0", options.max_nodes));
    }
}

std::string read_token(const Values& values, LaunchOptions& options) {
    if (options.elastic) return values.env()("TRAINYARD_RDZV_TOKEN").value_or("");
    std::string file = values.text("rdzv-token-file");
    const auto key = options.rdzv_conf.find("token_file");
    if (file.empty() && key != options.rdzv_conf.end()) file = key->second;
    if (file.empty()) return values.env()("TRAINYARD_RDZV_TOKEN").value_or("");
    const std::string token(
        trim(in_context("reading the rendezvous token", [&] { return sys::read_file(file); })));
    if (token.empty()) {
        throw_error(Code::invalid, "CommandLine", "argument --rdzv-token-file: {} is empty", file);
    }
    return token;
}

void read_workers(const Values& values, LaunchOptions& options) {
    options.workers = worker_count(values.value("nproc-per-node", "1"), values.env());
    options.role = values.text("role", "default");
    options.module = values.on("module");
    options.no_python = values.on("no-python");
    options.run_path = values.on("run-path");
    options.virtual_local_rank = values.on("virtual-local-rank");
    options.start_method =
        values.value("start-method", "spawn").one_of({"spawn", "fork", "forkserver"});
    if (values.has("numa-binding")) {
        options.numa_binding =
            values.value("numa-binding").one_of({"node", "socket", "exclusive", "core-complex"});
    }
    if (options.module && options.no_python && !options.run_path) {
        throw_error(Code::invalid, "CommandLine",
                    "--no-python and --module exclude each other; leave one out");
    }
    if (values.rest().empty()) {
        throw_error(Code::invalid, "CommandLine",
                    "the following arguments are required: training_script; name the program to "
                    "run after the flags");
    }
    options.script = values.rest().front();
    if (options.script.empty()) {
        throw_error(Code::invalid, "CommandLine",
                    "the name of the training script is empty; is a variable of your shell unset?");
    }
    options.script_args.assign(values.rest().begin() + 1, values.rest().end());
}

void read_logs(const Values& values, LaunchOptions& options) {
    options.log_dir = values.text("log-dir");
    options.redirects = stream_map(values.value("redirects", "0"));
    options.tee = stream_map(values.value("tee", "0"));
    options.local_ranks_filter = rank_set(values.value("local-ranks-filter"));
    if (const auto prefix = values.or_variable("log-line-prefix-template",
                                               "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")) {
        options.log_line_prefix_template = prefix->text();
    }
    if (values.has("duplicate-stdout-filters")) {
        options.duplicate_stdout_filters = filter_texts(values.text("duplicate-stdout-filters"));
    }
    if (values.has("duplicate-stderr-filters")) {
        options.duplicate_stderr_filters = filter_texts(values.text("duplicate-stderr-filters"));
    }
}

void read_recovery(const Values& values, LaunchOptions& options) {
    options.max_restarts = values.number("max-restarts", 0, 0);
    options.torchrun_counting =
        values.value("restart-counting", "by-cause").one_of({"by-cause", "torchrun"}) == "torchrun";
    options.budgets = budgets(values.value("budget"));
    options.resize = values.value("resize", "auto").one_of({"auto", "checkpoint", "now", "never"});
    if (const auto dir = values.or_variable("checkpoint-dir", "TRAINYARD_CHECKPOINT_DIR")) {
        options.checkpoint_dir = dir->text();
    }
    const FlagText signal = values.value("checkpoint-signal", "SIGUSR1");
    if (signal.text() != "none") {
        const auto numbers = signal_numbers(signal);
        if (numbers.size() != 1) signal.refuse("is not one signal; such as SIGUSR1, or none");
        options.checkpoint_signal = numbers.front();
    }
    options.hang_timeout = values.duration("hang-timeout", milliseconds(0));
    options.abort_grace = values.duration("abort-grace", options.abort_grace);
    options.warm = !values.on("no-warm");
    options.agent_store = values.on("agent-store");
    if (values.has("port-range")) {
        std::tie(options.port_low, options.port_high) = port_range(values.value("port-range"));
    }
}

void read_ending(const Values& values, LaunchOptions& options) {
    const FlagText signals = values.value("signals-to-handle", kDefaultSignals);
    options.signals = signal_numbers(signals);
    options.signals_text = signals.text();
    if (const auto timeout =
            values.or_variable("shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")) {
        options.shutdown_timeout = timeout->duration();
    }
    options.drain_timeout = values.duration("drain-timeout", options.drain_timeout);
    options.drain_before = values.duration("drain-before", options.drain_before);
    options.notice_file = values.text("notice-file");
    options.notice_url = values.text("notice-url");
    if (values.has("end-time")) {
        options.end_time = end_time(values.value("end-time"));
    } else if (const auto slurm = parse_int(values.env()("SLURM_JOB_END_TIME").value_or(""));
               slurm && *slurm > 0) {
        // Slurm's variable, not the user's word: something else than a time there is no error.
        options.end_time = from_epoch_seconds(static_cast<double>(*slurm));
    }
}

void read_observation(const Values& values, LaunchOptions& options) {
    options.monitor_interval = values.duration("monitor-interval", options.monitor_interval);
    options.event_log_handler =
        values.value("event-log-handler", "null").one_of({"null", "console"});
    options.events = values.text("events");
    if (options.events.empty() && options.event_log_handler == "console") options.events = "-";
    options.semantic_exit_codes =
        values.value("exit-code-policy", "torchrun").one_of({"torchrun", "semantic"}) == "semantic";
    options.explain = values.on("explain");
    if (values.has("health-address")) {
        options.health_address = listen_address(values.value("health-address"));
    } else if (const auto port = values.env()("TORCHELASTIC_HEALTH_CHECK_PORT");
               port && parse_int(*port)) {
        options.health_address =
            listen_address(FlagText("health-address", {*port, "TORCHELASTIC_HEALTH_CHECK_PORT"}));
    }
}

/// A program under this launcher has as long as its box's own end leaves it, and whoever started
/// the box must be able to tell a bad program from a bad day.
void settle_as_elastic(const Values& values, LaunchOptions& options) {
    constexpr milliseconds kUntilTheBoxEnds{120000};
    if (!values.has("shutdown-timeout")) options.shutdown_timeout = kUntilTheBoxEnds;
    options.semantic_exit_codes = true;
    options.node_socket = values.env()(kNodeSocket).value_or("");
}

LaunchOptions read_options(const Values& values, bool elastic) {
    LaunchOptions options;
    options.elastic = elastic;
    refuse_plugins(values);
    read_rendezvous(values, options);
    read_workers(values, options);
    read_logs(values, options);
    read_recovery(values, options);
    read_ending(values, options);
    read_observation(values, options);
    options.token = read_token(values, options);
    if (elastic) settle_as_elastic(values, options);
    return options;
}

}  // namespace

std::variant<LaunchOptions, Usage> parse_launch(const std::vector<std::string>& words,
                                                EnvLookup env) {
    try {
        SplitLine line = split_line(words, env);
        if (line.help) return Usage{.exit_code = 0, .text = launch_help()};
        const bool elastic = !env(kElasticNodes).value_or("").empty();
        const std::string changes = elastic ? take_membership(line, env) : std::string();
        LaunchOptions options = read_options(Values(std::move(line), env), elastic);
        options.elastic_changes = changes;
        return options;
    } catch (const Error& error) {
        return Usage{.exit_code = 2,
                     .text = format("{}trainyard run: error: {}\n", launch_usage(), error.what())};
    }
}

}  // namespace ty::agent
