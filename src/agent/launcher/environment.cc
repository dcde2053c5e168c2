// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/environment.h"

#include "agent/launcher/options/elastic.h"
#include "agent/launcher/options/macros.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ty::agent {

namespace {

std::string get(const char* name) {
    const char* value = ::getenv(name);
    return value != nullptr ? value : "";
}

/// The first of python3 and python in PATH, as an activated environment puts them there.
std::string interpreter() {
    if (const std::string chosen = get("PYTHON_EXEC"); !chosen.empty()) return chosen;
    for (const char* name : {"python3", "python"}) {
        for (const std::string& folder : split(get("PATH"), ':')) {
            const std::string path = folder + "/" + name;
            if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
        }
    }
    return "python3";
}

constexpr const char* kRunPath =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

std::string visible_gpu(const Variables& base, int local_rank) {
    const std::string* visible = base.find("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return std::to_string(local_rank);
    const std::vector<std::string> devices = split(*visible, ',');
    if (static_cast<std::size_t>(local_rank) >= devices.size()) {
        throw_error(Code::invalid, "",
                    "--virtual-local-rank: local rank {} has no GPU in CUDA_VISIBLE_DEVICES={}; "
                    "lower --nproc-per-node or make more GPUs visible",
                    local_rank, *visible);
    }
    return std::string(trim(devices[static_cast<std::size_t>(local_rank)]));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& host) {
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (const int failed = ::getaddrinfo(host.c_str(), "9", &hints, &found); failed != 0) {
        throw_error(Code::unavailable, "", "resolve \"{}\": {}; give an IP address or fix DNS",
                    host, ::gai_strerror(failed));
    }
    return {found, &::freeaddrinfo};
}

std::string text_of(const sockaddr* address, socklen_t length) {
    char text[NI_MAXHOST] = {};
    ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    return text;
}

milliseconds conf_seconds(const LaunchOptions& options, const char* key, milliseconds otherwise) {
    const auto it = options.rdzv_conf.find(key);
    if (it == options.rdzv_conf.end()) return otherwise;
    const std::optional<double> value = parse_double(it->second);
    if (!value || *value < 0 || *value > 1e7) {
        throw_error(Code::invalid, "", "--rdzv-conf: {}={} is not a number of seconds", key,
                    it->second);
    }
    return milliseconds(static_cast<long long>(*value * 1000));
}

/// Slurm tells how many nodes it gave: nobody has to wait for more.
int expected_nodes(const LaunchOptions& options) {
    const auto it = options.rdzv_conf.find("expected_nodes");
    const std::string text = it != options.rdzv_conf.end() ? it->second : get("SLURM_NNODES");
    const long long count = parse_int(text).value_or(0);
    if (count < options.min_nodes || count > options.max_nodes) return 0;
    return static_cast<int>(count);
}

std::map<rendezvous::Cause, int> budgets_of(const LaunchOptions& options) {
    using rendezvous::Cause;
    std::map<Cause, int> result;
    for (const Cause cause : {Cause::application, Cause::infrastructure, Cause::preemption,
                              Cause::resize, Cause::hang}) {
        const auto it = options.budgets.find(std::string(to_string(cause)));
        if (it != options.budgets.end()) result[cause] = it->second;
    }
    return result;
}

}  // namespace

Variables Variables::inherited() {
    Variables result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos || equals == 0) continue;
        result.values_.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return result;
}

void Variables::set(const std::string& name, const std::string& value) {
    values_[name] = value;
}

void Variables::set_default(const std::string& name, const std::string& value) {
    values_.emplace(name, value);
}

void Variables::remove_if(bool (*unwanted)(std::string_view name)) {
    std::erase_if(values_, [unwanted](const auto& entry) { return unwanted(entry.first); });
}

const std::string* Variables::find(const std::string& name) const {
    const auto it = values_.find(name);
    return it != values_.end() ? &it->second : nullptr;
}

std::vector<std::string> Variables::list() const {
    std::vector<std::string> result;
    result.reserve(values_.size());
    for (const auto& [name, value] : values_) result.push_back(name + "=" + value);
    return result;
}

std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank) {
    std::vector<std::string> argv;
    if (options.no_python && !options.run_path) {
        argv.push_back(options.script);
    } else {
        argv = {interpreter(), "-u"};
        if (options.run_path) {
            argv.insert(argv.end(), {"-c", kRunPath});
        } else if (options.module) {
            argv.push_back("-m");
        }
        argv.push_back(options.script);
    }
    for (const std::string& argument : options.script_args) {
        argv.push_back(substitute(argument, {{"local_rank", std::to_string(local_rank)}}));
    }
    return argv;
}

std::string entrypoint_name(const LaunchOptions& options) {
    return options.run_path ? "run_script_path" : options.script;
}

std::vector<std::string> worker_environment(const LaunchOptions& options, const Variables& base,
                                            const rendezvous::Assignment& assignment,
                                            const WorkerPlace& place) {
    Variables env = base;
    if (options.elastic) env.remove_if(is_membership);
    const auto number = [&env](const char* name, long long value) {
        env.set(name, std::to_string(value));
    };
    number("LOCAL_RANK", options.virtual_local_rank ? 0 : place.local_rank);
    number("RANK", assignment.first_rank + place.local_rank);
    number("GROUP_RANK", assignment.group_rank);
    number("ROLE_RANK", assignment.first_role_rank + place.local_rank);
    env.set("ROLE_NAME", options.role);
    number("LOCAL_WORLD_SIZE", options.workers);
    number("WORLD_SIZE", assignment.world_size);
    number("GROUP_WORLD_SIZE", assignment.group_world_size);
    number("ROLE_WORLD_SIZE", assignment.role_world_size);
    env.set("MASTER_ADDR", assignment.master_address);
    number("MASTER_PORT", assignment.master_port);
    number("TORCHELASTIC_RESTART_COUNT", assignment.restart_count);
    number("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
    env.set("TORCHELASTIC_RUN_ID", options.rdzv_id);
    env.set("TORCHELASTIC_USE_AGENT_STORE", options.agent_store ? "True" : "False");
    env.set("TORCHELASTIC_ERROR_FILE", place.error_file);
    env.set("TORCHELASTIC_SIGNALS_TO_HANDLE", options.signals_text);
    // Both spellings, so that PyTorch 1.13 and 2.x both see it.
    env.set_default("NCCL_ASYNC_ERROR_HANDLING", "1");
    env.set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    if (options.workers > 1) env.set_default("OMP_NUM_THREADS", "1");
    if (options.virtual_local_rank) {
        env.set("CUDA_VISIBLE_DEVICES", visible_gpu(base, place.local_rank));
    }
    if (options.hang_timeout.count() > 0) env.set_default("PYTHONFAULTHANDLER", "1");
    number("TRAINYARD_GENERATION", assignment.generation);
    env.set("TRAINYARD_CHECKPOINT_REQUEST", place.request_file);
    if (!options.checkpoint_dir.empty()) {
        env.set("TRAINYARD_CHECKPOINT_DIR", options.checkpoint_dir);
    }
    return env.list();
}

std::string own_address(const LaunchOptions& options, const std::string& endpoint_host) {
    if (!options.local_addr.empty()) {
        const AddressList found = resolve(options.local_addr);
        return text_of(found->ai_addr, found->ai_addrlen);
    }
    const std::string target = endpoint_host.empty() ? "127.0.0.1" : endpoint_host;
    const AddressList found = resolve(target);
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
        // Connecting a datagram socket sends nothing; the kernel picks the route and our address.
        const sys::Fd probe(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (!probe.is_open() || ::connect(probe.get(), one->ai_addr, one->ai_addrlen) != 0)
            continue;
        sockaddr_storage own = {};
        socklen_t length = sizeof own;
        if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0) {
            return text_of(reinterpret_cast<sockaddr*>(&own), length);
        }
    }
    throw_error(Code::unavailable, "",
                "no network interface leads to {}; give this node's address with --local-addr",
                target);
}

rendezvous::Policy policy_of(const LaunchOptions& options) {
    rendezvous::Policy policy;
    policy.run_id = options.rdzv_id;
    policy.min_nodes = options.min_nodes;
    policy.max_nodes = options.max_nodes;
    policy.expected_nodes = expected_nodes(options);
    policy.last_call = conf_seconds(options, "last_call_timeout", policy.last_call);
    policy.join_timeout = conf_seconds(options, "join_timeout", policy.join_timeout);
    policy.lease = conf_seconds(options, "lease", policy.lease);
    policy.fence = conf_seconds(options, "fence", policy.lease + policy.lease / 5);
    policy.resize_debounce = conf_seconds(options, "resize_debounce", policy.resize_debounce);
    policy.resize_deadline = conf_seconds(options, "resize_deadline", policy.resize_deadline);
    policy.max_restarts = options.max_restarts;
    policy.counting =
        options.torchrun_counting ? rendezvous::Counting::torchrun : rendezvous::Counting::by_cause;
    policy.budgets = budgets_of(options);
    const bool at_checkpoint = options.resize == "checkpoint" ||
                               (options.resize == "auto" && !options.checkpoint_dir.empty());
    policy.resize = options.resize == "never" ? rendezvous::ResizeWhen::never
                    : at_checkpoint           ? rendezvous::ResizeWhen::checkpoint
                                              : rendezvous::ResizeWhen::now;
    return policy;
}

rendezvous::NodeFacts facts_of(const LaunchOptions& options, const std::string& endpoint_host) {
    SystemIds ids;
    rendezvous::NodeFacts facts;
    facts.host = sys::read_host().host_name;
    facts.id = format("{}-{}-{}", facts.host, ::getpid(), ids.token(8));
    if (options.node_rank) facts.slot = *options.node_rank;
    facts.address = own_address(options, endpoint_host);
    facts.role = options.role;
    facts.workers = options.workers;
    return facts;
}

}  // namespace ty::agent
