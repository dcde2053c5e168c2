// SPDX-License-Identifier: Apache-2.0
#include "agent/runner.h"

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

bool is_visible_anyway(std::string_view path) {
    return std::ranges::any_of(kVisible, [&](std::string_view folder) {
        return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
    });
}

bool is_there(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0;
}

Bytes half_of_memory() {
    return Bytes(sys::read_host().memory.count() / 2);
}

}  // namespace

Runner::Runner(const plan::NodePlan& plan, const HostPaths& host, ProbeResult probe, LogPump& pump,
               Orders& orders)
    : plan_(plan), host_(host), probe_(std::move(probe)), pump_(pump), orders_(orders) {
    cgroup_ = Cgroup::create(plan.attempt.str() + "." + plan.host,
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

BoxPlan Runner::box_plan(const RunSpec& spec) const {
    BoxPlan box;
    box.rung = probe_.rung;
    box.root = (host_.scratch() / "box").string();
    box.host = plan_.host;
    box.binds = binds_;
    box.binds.insert(box.binds.end(), spec.binds.begin(), spec.binds.end());
    box.shared_memory =
        plan_.limits.shared_memory.count() > 0 ? plan_.limits.shared_memory : half_of_memory();
    box.gpus = plan_.gpus > 0;
    if (cgroup_.is_open()) box.cgroup = cgroup_.folder().string();
    box.argv = spec.argv;
    box.cwd = spec.cwd;
    Variables variables = spec.variables;
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
        Box box(box_plan(spec), pump_.write_fd());
        end = watch(box, until, grace);
    }
    end.tail = pump_.finish_run();
    const bool killed = end.box.exit && end.box.exit->shell_code() == 137;
    const bool ours = ours_before >= 0 && cgroup_.oom_kills() > ours_before;
    const bool machines = machine_before >= 0 && machine_oom_kills() > machine_before;
    end.out_of_memory = end.why == RunEnd::Why::ended &&
                        ((ours && end.box.exit && !end.box.exit->ok()) || (killed && machines));
    return end;
}

RunEnd Runner::watch(Box& box, Deadline until, seconds grace) {
    RunEnd end;
    bool over = false;
    sys::Poller poller;
    const auto terminate = [&](RunEnd::Why why, seconds patience) {
        if (end.why != RunEnd::Why::ended) return;
        end.why = why;
        box.signal(SIGTERM);
        poller.set_timer("grace", Deadline::in(patience), [&] { box.kill(); });
    };
    const auto obey = [&] {
        const Orders::Now now = orders_.now();
        if (now.gone) {
            end.why = RunEnd::Why::gone;
            box.kill();
        } else if (now.stop) {
            terminate(RunEnd::Why::stopped, now.grace);
        }
    };
    poller.add(box.control_fd(), [&] { over = over || box.on_control(); });
    poller.add(orders_.wake().fd(), [&] {
        orders_.wake().drain();
        obey();
    });
    if (!until.is_never()) {
        poller.set_timer("max run time", until, [&] { terminate(RunEnd::Why::timed_out, grace); });
    }
    obey();
    while (!over) poller.run_once(Deadline::in(10s), {});
    end.box = box.finish();
    return end;
}

}  // namespace ty::agent
