// SPDX-License-Identifier: Apache-2.0
// fork and exec of one worker. Everything is prepared before the fork; in the child only calls that
// are safe after a fork of a process with threads.
#include "agent/launcher/workers/workers.h"
#include "base/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <limits>

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

namespace {

enum class Stage : int { descriptors, affinity, exec };

/// What the child says when it could not become the program.
struct Complaint {
    Stage stage;
    int error;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

/// Where to look for the program: PATH of the environment it will have, as Popen(env=…) does.
std::vector<std::string> program_candidates(const WorkerSpec& spec) {
    const std::string& name = spec.argv[0];
    if (name.find('/') != std::string::npos) return {name};
    std::string_view path = "/bin:/usr/bin";
    for (const std::string& entry : spec.env) {
        if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
    }
    std::vector<std::string> result;
    while (true) {
        const std::size_t colon = path.find(':');
        const std::string_view folder = path.substr(0, colon);
        result.push_back(folder.empty() ? "./" + name : std::string(folder) + "/" + name);
        if (colon == std::string_view::npos) return result;
        path.remove_prefix(colon + 1);
    }
}

/// A set of any size: machines have more than the 1024 processors of a cpu_set_t.
class CpuSet {
public:
    explicit CpuSet(const std::vector<int>& cpus) {
        if (cpus.empty()) return;
        const int highest = *std::max_element(cpus.begin(), cpus.end());
        bits_.resize(CPU_ALLOC_SIZE(highest + 1) / sizeof(unsigned long));
        for (const int cpu : cpus) {
            CPU_SET_S(static_cast<std::size_t>(cpu), size(),
                      reinterpret_cast<cpu_set_t*>(bits_.data()));
        }
    }
    std::size_t size() const { return bits_.size() * sizeof(unsigned long); }
    const cpu_set_t* get() const { return reinterpret_cast<const cpu_set_t*>(bits_.data()); }

private:
    std::vector<unsigned long> bits_;
};

/// All the child needs, in memory it shares with nobody.
struct Plan {
    std::vector<std::string> candidates;
    std::vector<const char*> programs;  ///< into candidates
    std::vector<char*> argv, env;
    std::vector<std::pair<int, int>> places;  ///< {our descriptor, number in the child}, by number
    std::vector<int> copies;                  ///< room for one number per place
    CpuSet cpus{{}};
    int cgroup_procs = -1;
    int complaints = -1;
    pid_t parent = 0;
    bool own_group = false;
    std::uint64_t mark = 0;
};

[[noreturn]] void complain(int complaints, Stage stage, int error) {
    const Complaint complaint = {stage, error};
    [[maybe_unused]] const ssize_t written = ::write(complaints, &complaint, sizeof complaint);
    ::_exit(127);
}

void default_signals() {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
}

/// Mark everything from `first` to `last` close-on-exec (closing would take our own pipe along).
void hide(int first, int last) {
    if (first > last) return;
    if (::close_range(static_cast<unsigned>(first), static_cast<unsigned>(last),
                      CLOSE_RANGE_CLOEXEC) == 0)
        return;
    // Kernels before 5.11.
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1u << 16));
    for (int fd = first; fd <= last && fd < end; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/// Descriptors to their numbers. Each is copied above all numbers first, so that they may be
/// permuted freely. Returns the pipe's new number.
int place_descriptors(Plan& plan) {
    const int above = plan.places.empty() ? 3 : std::max(3, plan.places.back().second + 1);
    const int complaints = ::fcntl(plan.complaints, F_DUPFD_CLOEXEC, above);
    if (complaints < 0) complain(plan.complaints, Stage::descriptors, errno);
    for (std::size_t i = 0; i < plan.places.size(); ++i) {
        plan.copies[i] = ::fcntl(plan.places[i].first, F_DUPFD_CLOEXEC, above);
        if (plan.copies[i] < 0) complain(complaints, Stage::descriptors, errno);
    }
    int next = 3;
    for (std::size_t i = 0; i < plan.places.size(); ++i) {
        const int number = plan.places[i].second;
        if (::dup2(plan.copies[i], number) < 0) complain(complaints, Stage::descriptors, errno);
        if (number < 3) continue;
        hide(next, number - 1);
        next = number + 1;
    }
    hide(next, std::numeric_limits<int>::max());
    return complaints;
}

/// A soft limit that nothing enforces since Linux 2.4, but that is inherited: it tells our workers'
/// descendants from our other children after they have lost their parents.
void set_mark(std::uint64_t mark) {
    rlimit limit = {};
    if (mark == 0 || ::getrlimit(RLIMIT_LOCKS, &limit) != 0) return;
    limit.rlim_cur = mark;
    ::setrlimit(RLIMIT_LOCKS, &limit);
}

[[noreturn]] void become(Plan& plan, const sigset_t& no_signals) {
    // Cleared by the kernel when the program is set-uid or has file capabilities; the guard and the
    // cgroup are there for those.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);  // died before the line above
    if (plan.own_group) ::setpgid(0, 0);
    if (plan.cgroup_procs >= 0) {
        // Not being allowed to is no reason to fail: the group is an additional net.
        [[maybe_unused]] const ssize_t joined = ::write(plan.cgroup_procs, "0", 1);
    }
    set_mark(plan.mark);
    default_signals();
    const int complaints = place_descriptors(plan);
    if (plan.cpus.size() > 0 && ::sched_setaffinity(0, plan.cpus.size(), plan.cpus.get()) != 0)
        complain(complaints, Stage::affinity, errno);
    ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);

    int error = ENOENT;
    for (const char* program : plan.programs) {
        ::execve(program, plan.argv.data(), plan.env.data());
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            complain(complaints, Stage::exec, errno);
        // "Permission denied" for one folder is the answer only if no other has the program.
        if (errno == EACCES) error = EACCES;
    }
    complain(complaints, Stage::exec, error);
}

/// The folder of a control group, from its open cgroup.procs; closed when there is none.
sys::Fd group_folder(int cgroup_procs) {
    if (cgroup_procs < 0) return {};
    std::array<char, 4096> path = {};
    const std::string link = format("/proc/self/fd/{}", cgroup_procs);
    const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
    if (length <= 0) return {};
    const sys::fs::path procs(std::string(path.data(), static_cast<std::size_t>(length)));
    return sys::Fd(::open(procs.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// fork, straight into the control group where the kernel can (5.7): a process that moves there
/// later waits for an RCU grace period, tens of milliseconds. No destructors here: it returns
/// twice.
pid_t fork_into(int group, int& cgroup_procs) {
    if (group >= 0) {
        clone_args args = {};
        args.flags = CLONE_INTO_CGROUP;
        args.exit_signal = SIGCHLD;
        args.cgroup = static_cast<std::uint64_t>(group);
        const long pid = ::syscall(SYS_clone3, &args, sizeof args);
        if (pid >= 0) {
            cgroup_procs = -1;
            return static_cast<pid_t>(pid);
        }
    }
    return ::fork();
}

[[noreturn]] void throw_exec_error(const std::string& program, int number) {
    const bool is_path = program.find('/') != program.npos;
    if (number == ENOENT && !is_path) {
        throw_error(Code::not_found, "", "{} is not in PATH; give its path or correct PATH",
                    program);
    }
    if (number == ENOENT && ::access(program.c_str(), F_OK) == 0) {
        throw_error(Code::not_found, "",
                    "the interpreter in the first line of {} does not exist; correct that line",
                    program);
    }
    if (number == ENOENT) throw_error(Code::not_found, "", "{} does not exist", program);
    std::error_code failed;
    if (number == EACCES && sys::fs::is_directory(program, failed)) {
        throw_error(Code::denied, "", "{} is a folder; name the program in it", program);
    }
    if (number == EACCES) {
        throw_error(Code::denied, "",
                    "{} may not be executed; make it executable (chmod +x), or leave --no-python "
                    "out if it is a Python script",
                    program);
    }
    throw errno_error(number, format("execute {}", program));
}

[[noreturn]] void throw_complaint(const WorkerSpec& spec, const Complaint& complaint) {
    switch (complaint.stage) {
        case Stage::descriptors:
            throw errno_error(complaint.error,
                              format("place the descriptors of \"{}\"", spec.argv[0]));
        case Stage::affinity:
            throw errno_error(complaint.error,
                              format("bind \"{}\" to its processors", spec.argv[0]));
        case Stage::exec:
            break;
    }
    throw_exec_error(spec.argv[0], complaint.error);
}

/// Read until exec has closed the other end. Bounded: a dead network file system can hold up exec.
void await_exec(const WorkerSpec& spec, pid_t pid, int pipe) {
    constexpr seconds kPatience(30);
    Complaint complaint = {};
    if (sys::wait(pipe, sys::Readiness::readable, Deadline::in(kPatience)) != sys::Waited::ready) {
        ::kill(pid, SIGKILL);
        throw_error(Code::timed_out, "", "\"{}\" has not started within {} s", spec.argv[0],
                    kPatience.count());
    }
    ssize_t got = -1;
    while ((got = ::read(pipe, &complaint, sizeof complaint)) < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof complaint)) return;
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    throw_complaint(spec, complaint);
}

Plan make_plan(const WorkerSpec& spec, const std::vector<std::pair<int, int>>& extra) {
    Plan plan;
    plan.candidates = program_candidates(spec);
    for (const std::string& candidate : plan.candidates) plan.programs.push_back(candidate.c_str());
    plan.argv = pointers(spec.argv);
    plan.env = pointers(spec.env);
    plan.places = extra;
    if (spec.stdout_fd >= 0) plan.places.emplace_back(spec.stdout_fd, 1);
    if (spec.stderr_fd >= 0) plan.places.emplace_back(spec.stderr_fd, 2);
    std::sort(plan.places.begin(), plan.places.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    plan.copies.resize(plan.places.size());
    plan.cpus = CpuSet(spec.cpus);
    plan.parent = ::getpid();
    // A group of its own: a script that kills its process group, as many do to get rid of their
    // helpers, does not kill us, and whatever stays in the group dies in one call. Not on a
    // terminal, where Ctrl-C, Ctrl-Z and reading need the foreground group.
    plan.own_group = ::isatty(0) == 0;
    plan.mark = spec.mark;
    return plan;
}

}  // namespace

pid_t spawn_worker(const WorkerSpec& spec, int cgroup_procs,
                   const std::vector<std::pair<int, int>>& extra) {
    TY_ASSERT(!spec.argv.empty());
    Plan plan = make_plan(spec, extra);
    sys::Pipe pipe = sys::make_pipe();
    plan.complaints = pipe.write.get();
    plan.cgroup_procs = cgroup_procs;
    const sys::Fd group = group_folder(cgroup_procs);

    sigset_t every;
    sigset_t none;
    sigset_t before;
    sigfillset(&every);
    sigemptyset(&none);
    // No handler of ours may run in the child.
    ::pthread_sigmask(SIG_SETMASK, &every, &before);
    const pid_t pid = fork_into(group.get(), plan.cgroup_procs);
    if (pid == 0) become(plan, none);
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) throw errno_error(error, format("start \"{}\"", spec.argv[0]));
    pipe.write.close();
    await_exec(spec, pid, pipe.read.get());
    return pid;
}

}  // namespace ty::agent
