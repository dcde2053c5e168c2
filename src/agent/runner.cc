// SPDX-License-Identifier: Apache-2.0
#include "agent/runner.h"

#include "agent/freezer.h"
#include "agent/network/network.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include <sys/stat.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr std::array<std::string_view, 8> kVisible = {"/usr",   "/bin",   "/sbin",   "/lib",
                                                      "/lib32", "/lib64", "/libx32", "/etc"};

constexpr milliseconds kFreezeStep = 20ms;
constexpr milliseconds kTick = 1s;

bool is_visible_anyway(std::string_view path) {
    return std::ranges::any_of(kVisible, [&](std::string_view folder) {
        return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
    });
}

bool is_there(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0;
}

/// The job's hosts are next door: what goes to them must not ask the proxy, which knows them not.
/// gRPC, for one, takes https_proxy for all its connections.
void keep_from_proxy(Variables& variables, const plan::Pairs& hosts) {
    for (const char* name : {"NO_PROXY", "no_proxy"}) {
        const std::string* known = variables.find(name);
        if (known == nullptr) continue;
        std::string list = *known;
        for (const auto& [host, address] : hosts) list += "," + host + "," + address;
        variables.set(name, std::move(list));
    }
}

Bytes half_of_memory() {
    return Bytes(sys::read_host().memory.count() / 2);
}

}  // namespace

Runner::Runner(const plan::NodePlan& plan, const HostPaths& host, const std::string& node,
               ProbeResult probe, LogPump& pump, Orders& orders)
    : plan_(plan), host_(host), probe_(std::move(probe)), pump_(pump), orders_(orders) {
    cgroup_ = Cgroup::create(plan.attempt.str() + "." + node,
                             {plan.limits.memory, plan.limits.cpus, plan.limits.processes});
    for (const char* name : {"tmp", "var_tmp", "root", "box"}) make_folders(host_.scratch() / name);
    for (const char* name : {"tmp", "var_tmp"})
        (void)::chmod((host_.scratch() / name).c_str(), 01777);
    add_bind({host_.ml().string(), "/opt/ml", BoxBind::Access::writable});
    add_bind({(host_.scratch() / "tmp").string(), "/tmp", BoxBind::Access::writable});
    add_bind({(host_.scratch() / "var_tmp").string(), "/var/tmp", BoxBind::Access::writable});
    add_bind({(host_.scratch() / "root").string(), "/root", BoxBind::Access::writable});
    for (const std::string& folder : plan.environment.readable)
        add_bind({folder, folder, BoxBind::Access::read_only});
}

std::string Runner::description() const {
    std::string text(to_string(probe_.rung));
    if (!probe_.why.empty()) text += " (" + probe_.why + ")";
    if (!cgroup_.why_not().empty()) text += "; without limits: " + cgroup_.why_not();
    return text;
}

ProgramPaths Runner::program_paths() const {
    ProgramPaths paths;
    if (probe_.rung == Rung::process) paths.base = host_.ml().string();
    return paths;
}

std::string Runner::home() const {
    return seen_as(host_.scratch() / "root", "/root");
}

std::string Runner::seen_as(const sys::fs::path& on_host, const std::string& inside) const {
    return probe_.rung == Rung::process ? on_host.string() : inside;
}

void Runner::add_bind(BoxBind bind) {
    const bool same_place = bind.source == bind.target;
    if (same_place &&
        (is_visible_anyway(bind.source) || bind.source == "/" || !is_there(bind.source)))
        return;
    const bool known = std::ranges::any_of(
        binds_, [&](const BoxBind& other) { return other.target == bind.target; });
    if (!known) binds_.push_back(std::move(bind));
}

void Runner::join(const JobNetwork& network) {
    if (probe_.rung != Rung::namespaces) {
        throw_error(Code::unsupported, "NoNamespaces",
                    "the sandbox of this machine has no namespaces ({}), so the hosts of a job "
                    "cannot have a network; run it with one instance, or allow user namespaces",
                    probe_.why);
    }
    network_ = &network;
}

BoxPlan Runner::box_plan(const RunSpec& spec) const {
    BoxPlan box;
    box.rung = probe_.rung;
    box.root = (host_.scratch() / "box").string();
    box.host = plan_.host;
    if (network_ != nullptr && spec.place == RunSpec::Place::job)
        box.addresses = network_->addresses();
    box.binds = binds_;
    box.binds.insert(box.binds.end(), spec.binds.begin(), spec.binds.end());
    box.shared_memory =
        plan_.limits.shared_memory.count() > 0 ? plan_.limits.shared_memory : half_of_memory();
    box.gpus = plan_.gpus > 0;
    if (cgroup_.is_open()) box.cgroup = cgroup_.folder().string();
    box.argv = spec.argv;
    box.cwd = spec.cwd;
    Variables variables = spec.variables;
    keep_from_proxy(variables, box.addresses);
    if (box.rung == Rung::namespaces) {
        box.files = plan_.sdk_files;
    } else {
        // No private root to put files into: they lie in the scratch folder, and variables that
        // name them are pointed there.
        make_folders(host_.scratch() / "files");
        std::size_t number = 0;
        for (const auto& [path, content] : plan_.sdk_files) {
            const sys::fs::path copy =
                host_.scratch() / "files" /
                format("{}-{}", number++, sys::fs::path(path).filename().string());
            sys::write_file(copy, content);
            for (const auto& [name, value] : plan::Pairs(variables.pairs())) {
                if (value == path) variables.set(name, copy.string());
            }
        }
        // By this the engine finds what a killed agent leaves behind.
        if (const char* run = std::getenv("TRAINYARD_RUN")) variables.set("TRAINYARD_RUN", run);
        variables.set_default("TMPDIR", (host_.scratch() / "tmp").string());
    }
    box.env = variables.to_environ();
    return box;
}

RunEnd Runner::run(const RunSpec& spec, Deadline until, seconds grace) {
    pump_.start_run();
    const long long machine_before = machine_oom_kills();
    const long long ours_before = cgroup_.oom_kills();
    RunEnd end;
    {
        const bool joins = network_ != nullptr && spec.place == RunSpec::Place::job;
        Box box(box_plan(spec), pump_.write_fd(), joins ? network_->namespaces() : NamespaceFds{});
        end = watch(box, spec, until, grace);
    }
    if (spec.on_tick) spec.on_tick();
    end.tail = pump_.finish_run();
    const bool killed = end.box.exit && end.box.exit->shell_code() == 137;
    const bool ours = ours_before >= 0 && cgroup_.oom_kills() > ours_before;
    const bool machines = machine_before >= 0 && machine_oom_kills() > machine_before;
    end.out_of_memory = end.why == RunEnd::Why::ended &&
                        ((ours && end.box.exit && !end.box.exit->ok()) || (killed && machines));
    return end;
}

namespace {

/// One run in its box: its reports, the orders that reach it, its timers.
class Watch {
public:
    Watch(Box& box, const RunSpec& spec, Rung rung, LogPump& pump, Orders& orders)
        : box_(box), spec_(spec), rung_(rung), pump_(pump), orders_(orders) {}

    RunEnd::Why run(Deadline until, seconds grace) {
        poller_.add(box_.control_fd(), [this] { over_ = over_ || box_.on_control(); });
        poller_.add(orders_.wake().fd(), [this] {
            orders_.wake().drain();
            obey();
        });
        if (!until.is_never()) {
            poller_.set_timer("max run time", until, [this, grace] {
                terminate(RunEnd::Why::timed_out, Deadline::in(grace));
            });
        }
        if (spec_.on_tick) tick();
        obey();
        while (!over_) poller_.run_once(Deadline::in(10s), {});
        return why_;
    }

private:
    void obey() {
        const Orders::Now now = orders_.now();
        if (now.gone) {
            why_ = RunEnd::Why::gone;
            kill();
            return;
        }
        if (now.stop) terminate(RunEnd::Why::stopped, Deadline::in(now.grace));
        if (now.interrupt && why_ == RunEnd::Why::ended) leave(now);
        // The machine goes away at the end of the notice, whatever else was allowed.
        if (!now.leave_by.is_never()) poller_.set_timer("notice", now.leave_by, [this] { kill(); });
        freeze();
    }

    void terminate(RunEnd::Why why, Deadline by) {
        if (why_ != RunEnd::Why::ended) return;
        why_ = why;
        box_.signal(SIGTERM);
        poller_.set_timer("grace", by, [this] { kill(); });
    }

    void leave(const Orders::Now& now) {
        if (const auto notice = orders_.take_notice()) pump_.say(*notice);
        if (spec_.leave && spec_.leave(now.leave_by.left(), now.why)) {
            why_ = RunEnd::Why::interrupted;
        } else {
            terminate(RunEnd::Why::interrupted, now.leave_by);
        }
    }

    void kill() {
        if (spec_.before_kill) spec_.before_kill();
        box_.kill();
    }

    /// Again and again while it lasts: a process may be forked while the others are stopped.
    void freeze() {
        const std::optional<Deadline> until = orders_.now().frozen_until;
        if (!until || until->passed()) {
            if (freezer_) pump_.say("the program goes on");
            freezer_.reset();
            return;
        }
        if (!freezer_) {
            pump_.say(format("fault: the program stands still for {} ms", until->left().count()));
            freezer_.emplace(box_.pid(), rung_);
        }
        freezer_->hold();
        poller_.set_timer("freeze", Deadline::earlier(*until, Deadline::in(kFreezeStep)),
                          [this] { freeze(); });
    }

    void tick() {
        spec_.on_tick();
        poller_.set_timer("tick", Deadline::in(kTick), [this] { tick(); });
    }

    Box& box_;
    const RunSpec& spec_;
    const Rung rung_;
    LogPump& pump_;
    Orders& orders_;
    sys::Poller poller_;
    std::optional<Freezer> freezer_;
    RunEnd::Why why_ = RunEnd::Why::ended;
    bool over_ = false;
};

}  // namespace

RunEnd Runner::watch(Box& box, const RunSpec& spec, Deadline until, seconds grace) {
    RunEnd end;
    end.why = Watch(box, spec, probe_.rung, pump_, orders_).run(until, grace);
    end.box = box.finish();
    return end;
}

}  // namespace ty::agent
