// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/coordinator/coordinator_host.h"

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr int kMostIdleDeaths = 5;
constexpr milliseconds kGoodWhile{2000};
constexpr std::size_t kLongestLine = 64u << 10;

}  // namespace

CoordinatorHost::CoordinatorHost(sys::Poller& poller, std::string binary, CoordinatorStart start,
                                 std::vector<int> listeners, Events events)
    : poller_(poller),
      binary_(std::move(binary)),
      start_(std::move(start)),
      listeners_(std::move(listeners)),
      events_(std::move(events)),
      memory_(MemorySlots::make()) {
    start_.parent = ::getpid();
    start_.two_listeners = listeners_.size() > 1;
}

CoordinatorHost::~CoordinatorHost() {
    if (watched_ >= 0) poller_.remove(watched_);
    if (pipe_.read.is_open()) poller_.remove(pipe_.read.get());
}

void CoordinatorHost::launch() {
    const sys::Fd document(::memfd_create("coordinator", MFD_CLOEXEC));
    if (!document.is_open()) throw_errno("make the coordinator's start document");
    sys::write_all(document.get(), encode(start_));

    if (pipe_.read.is_open()) poller_.remove(pipe_.read.get());
    pipe_ = sys::make_pipe();
    ::fcntl(pipe_.read.get(), F_SETFL, O_NONBLOCK);
    sys::Command command;
    command.argv = {binary_, "coordinate"};
    command.stdout_fd = pipe_.write.get();
    command.stderr_fd = pipe_.write.get();
    command.keep = {{document.get(), kStartFd},
                    {listeners_[0], kListenerFd},
                    {memory_.fd(0), kMemoryFd},
                    {memory_.fd(1), kMemoryFd + 1}};
    if (listeners_.size() > 1) command.keep.emplace_back(listeners_[1], kOldPlaceFd);
    child_ = sys::Child::spawn(command);
    born_ = clock_.monotonic();
    pipe_.write.close();
    watched_ = child_->pidfd();
    poller_.add(watched_, [this] { on_end(); });
    poller_.add(pipe_.read.get(), [this] { on_output(); });
    events_.on_note({"coordinator_started", {{"pid", std::to_string(child_->pid())}}});
}

void CoordinatorHost::replace() {
    if (child_) child_->signal(SIGKILL);
}

void CoordinatorHost::on_end() {
    if (!child_) return;
    on_output();
    const std::optional<sys::Exit> exit = child_->try_wait();
    if (!exit) return;
    poller_.remove(watched_);
    watched_ = -1;
    child_.reset();
    if (exit->ok()) return;  // the job is over
    // Where no node hosts it, nobody says that it worked.
    idle_deaths_ = clock_.monotonic() - born_ > kGoodWhile ? 1 : idle_deaths_ + 1;
    events_.on_note(
        {"coordinator_died", {{"how", sys::describe(*exit)}, {"last_words", last_complaint_}}});
    std::string why = last_complaint_.empty() ? sys::describe(*exit) : last_complaint_;
    if (idle_deaths_ < kMostIdleDeaths) {
        try {
            return launch();
        } catch (const Error& error) {
            why = error.what();
        }
    }
    events_.on_hopeless(format("the coordinator cannot be kept alive: {}", why));
}

void CoordinatorHost::on_output() {
    char buffer[16384];
    while (true) {
        const ssize_t got = ::read(pipe_.read.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) poller_.remove(pipe_.read.get());
        if (got <= 0) return;
        partial_.append(buffer, static_cast<std::size_t>(got));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = partial_.find('\n', begin)) != std::string::npos;) {
            take_line(std::string_view(partial_).substr(begin, end - begin));
            begin = end + 1;
        }
        partial_.erase(0, begin);
        if (partial_.size() > kLongestLine) partial_.clear();
    }
}

/// A note is a JSON object; everything else was meant for standard error.
void CoordinatorHost::take_line(std::string_view line) {
    if (line.starts_with('{')) {
        try {
            const Json document = parse_json(line);
            rendezvous::Effects::Note note{document.at("what").get<std::string>(), {}};
            for (const Json& field : document.at("fields")) {
                note.fields.emplace_back(field.at(0).get<std::string>(),
                                         field.at(1).get<std::string>());
            }
            return events_.on_note(note);
        } catch (const std::exception&) {
            // Cut short by a full pipe: shown as it is.
        }
    }
    if (!line.empty()) last_complaint_ = line;
    const std::string text = std::string(line) + "\n";
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
}

void CoordinatorHost::wait_for_end(Deadline by) {
    if (!child_) return;
    poller_.remove(watched_);
    watched_ = -1;
    if (child_->wait(by)) child_.reset();
    on_output();
}

}  // namespace ty::agent
