// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/outside/node_socket.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>

namespace ty::agent {

namespace {

constexpr const char* kTimer = "node socket";
constexpr std::size_t kLongestLine = 64u << 10;

sys::Fd dial_agent(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        throw_error(Code::invalid, "", "TRAINYARD_NODE_SOCKET {} is longer than {} bytes", path,
                    sizeof address.sun_path - 1);
    }
    path.copy(address.sun_path, path.size());
    sys::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) throw_errno("make a socket");
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw_error(Code::unavailable, "", "the agent of this node cannot be reached at {}: {}",
                    path, std::strerror(errno));
    }
    return fd;
}

}  // namespace

NodeSocket::NodeSocket(sys::Poller& poller, const std::string& path, milliseconds patience,
                       Events events)
    : poller_(poller), patience_(patience), events_(std::move(events)), fd_(dial_agent(path)) {
    poller_.add(fd_.get(), [this] { on_readable(); });
}

NodeSocket::~NodeSocket() {
    poller_.cancel_timer(kTimer);
    if (fd_.is_open()) poller_.remove(fd_.get());
}

void NodeSocket::put(const std::string& line) {
    if (!fd_.is_open()) return;
    const std::string text = line + "\n";
    const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // An agent that has read nothing for thousands of lines is no better than one that is gone, and
    // of both the poller will tell.
    if (sent != static_cast<ssize_t>(text.size())) ::shutdown(fd_.get(), SHUT_RDWR);
}

void NodeSocket::tell(const std::string& line) {
    put(line);
}

void NodeSocket::ask(std::string question, Answer on_answer) {
    questions_.push_back({std::move(question), std::move(on_answer)});
    if (questions_.size() == 1) put_next();
}

void NodeSocket::put_next() {
    put(questions_.front().text);
    poller_.set_timer(kTimer, Deadline::in(patience_), [this] {
        lose(format("no answer to \"{}\" within {} s", questions_.front().text,
                    patience_.count() / 1000));
    });
}

void NodeSocket::on_readable() {
    char buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(got == 0 ? "it closed its socket" : std::strerror(errno));
    partial_.append(buffer, static_cast<std::size_t>(got));
    std::size_t end = 0;
    while (fd_.is_open() && (end = partial_.find('\n')) != std::string::npos) {
        const std::string line = partial_.substr(0, end);
        partial_.erase(0, end + 1);
        take_line(line);
    }
    if (partial_.size() > kLongestLine) lose("it sent a line without an end");
}

void NodeSocket::take_line(const std::string& line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    const std::string rest = line.substr(std::min(space + 1, line.size()));
    if (word == "leave") {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        const std::optional<long long> within = parse_int(rest.substr(0, end));
        if (within && *within >= 0) {
            events_.on_leave(milliseconds(*within), rest.substr(std::min(end + 1, rest.size())));
            return;
        }
    } else if ((word == "ok" || word == "failed") && !questions_.empty()) {
        poller_.cancel_timer(kTimer);
        const Answer on_answer = std::move(questions_.front().on_answer);
        questions_.pop_front();
        if (!questions_.empty()) put_next();
        on_answer(word == "ok" ? std::nullopt : std::optional(rest));
        return;
    }
    log::warning("the agent of this node said what this launcher does not understand",
                 {{"line", line.substr(0, 200)}});
}

void NodeSocket::lose(const std::string& why) {
    if (!fd_.is_open()) return;
    poller_.cancel_timer(kTimer);
    poller_.remove(fd_.get());
    fd_.close();
    questions_.clear();
    events_.on_gone(why);
}

}  // namespace ty::agent
