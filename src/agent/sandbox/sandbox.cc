// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/sandbox.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr milliseconds kProbeLimit = 5s;
constexpr milliseconds kReapLimit = 20s;

/// The plan in memory, positioned at its start.
sys::Fd make_plan_file(BoxPlan plan, NamespaceFds join) {
    plan.joins_user = join.user >= 0;
    plan.joins_network = join.network >= 0;
    sys::Fd file(::memfd_create("box-plan", MFD_CLOEXEC));
    if (!file.is_open()) throw_errno("create a memory file for the box plan");
    sys::write_all(file.get(), to_json(plan));
    if (::lseek(file.get(), 0, SEEK_SET) < 0) throw_errno("rewind the box plan");
    return file;
}

}  // namespace

Probe::Probe() {
    if (const char* wanted = std::getenv("TRAINYARD_SANDBOX");
        wanted != nullptr && std::string_view(wanted) == "process") {
        failed_ = "TRAINYARD_SANDBOX asks for it";
        return;
    }
    const Result<std::monostate> started = capture([&] {
        errors_ = sys::make_pipe();
        sys::Command command;
        command.argv = {kSelf, "box", "--probe"};
        command.stderr_fd = errors_.write.get();
        child_ = sys::Child::spawn(command);
    });
    errors_.write.close();
    if (!started.ok()) failed_ = started.error().what();
}

ProbeResult Probe::finish() {
    ProbeResult result;
    result.real_root = ::geteuid() == 0;
    if (child_) {
        const std::optional<sys::Exit> exit = child_->wait(Deadline::in(kProbeLimit));
        if (exit && exit->ok()) return result;
        if (!exit) {
            failed_ = "the probe did not end in time";
        } else {
            std::array<std::byte, 2048> buffer;
            const std::size_t got = sys::read_some(errors_.read.get(), buffer);
            failed_ = std::string(reinterpret_cast<const char*>(buffer.data()), got);
            if (failed_.empty()) failed_ = "the probe ended with " + sys::describe(*exit);
        }
    }
    result.rung = Rung::process;
    result.why = failed_;
    return result;
}

Box::Box(const BoxPlan& plan, int output, NamespaceFds join) {
    if (join.network >= 0 && plan.rung != Rung::namespaces) {
        throw_error(Code::unsupported, "NoNamespaces",
                    "a program without namespaces of its own cannot join the job's network; "
                    "run jobs of several instances where the namespaces rung is available");
    }
    std::array<int, 2> ends = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw_errno("create the control socket of the box");
    control_ = sys::Fd(ends[0]);
    const sys::Fd theirs(ends[1]);
    const sys::Fd plan_file = make_plan_file(plan, join);
    sys::Command command;
    command.argv = {kSelf, "box"};
    // The program can read its init's environment: nothing of ours may be in it.
    command.env.emplace();
    if (const char* run = std::getenv("TRAINYARD_RUN");
        run != nullptr && plan.rung == Rung::process) {
        command.env->push_back(std::string("TRAINYARD_RUN=") + run);
    }
    command.stdout_fd = output;
    command.stderr_fd = output;
    command.keep = {{plan_file.get(), kBoxPlanFd}, {theirs.get(), kBoxControlFd}};
    if (join.user >= 0) command.keep.emplace_back(join.user, kBoxUserFd);
    if (join.network >= 0) command.keep.emplace_back(join.network, kBoxNetworkFd);
    process_ = sys::Child::spawn(command);
}

Box::~Box() {
    control_.close();  // in the process rung the box sees this and cleans up
    if (process_ && !over_)
        (void)capture([this] { return process_->wait(Deadline::in(kReapLimit)); });
}

bool Box::on_control() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::recv(control_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return over_;
    if (got <= 0) {
        // Closed without a report: the init of the box was killed, and the program with it.
        over_ = true;
        return true;
    }
    const BoxReport report = box_report_from_text({buffer.data(), static_cast<std::size_t>(got)});
    switch (report.kind) {
        case BoxReport::Kind::started:
            started_ = true;
            return false;
        case BoxReport::Kind::failed:
            end_.failure = to_valid_utf8(report.text);
            end_.missing = report.missing;
            break;
        case BoxReport::Kind::ended:
            end_.exit = sys::Exit{report.code, report.signal};
            break;
    }
    over_ = true;
    return true;
}

void Box::signal(int number) {
    const auto byte = static_cast<unsigned char>(number);
    (void)::send(control_.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Box::kill() {
    // The init takes everything along: in its PID namespace by the kernel's rule, in the process
    // rung because it sees the socket close.
    (void)::shutdown(control_.get(), SHUT_WR);
}

BoxEnd Box::finish() {
    const std::optional<sys::Exit> exit = process_->wait(Deadline::in(kReapLimit));
    if (!end_.exit && end_.failure.empty()) {
        if (started_) {
            end_.exit = sys::Exit{0, SIGKILL};
        } else {
            end_.failure =
                "the box ended with " + (exit ? sys::describe(*exit) : std::string("nothing said"));
        }
    }
    return std::move(end_);
}

}  // namespace ty::agent
