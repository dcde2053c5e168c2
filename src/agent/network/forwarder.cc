// SPDX-License-Identifier: Apache-2.0
#include "agent/network/forwarder.h"

#include "agent/launcher/link/endpoints.h"
#include "base/error.h"
#include "base/log.h"

#include <array>
#include <cstring>
#include <list>
#include <memory>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBuffer = 64u << 10;
/// Beyond this many, connections wait in the listener's queue: descriptors belong to the agent.
constexpr std::size_t kMostPairs = 256;
constexpr milliseconds kObeyLimit{1000};
constexpr int kRounds = 16;  // buffers in a row for one direction
/// Out of descriptors: nothing tells when there are some again.
constexpr milliseconds kAcceptAgain{50};

bool would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

using Buffer = std::array<char, kBuffer>;

/// One direction.
struct Flow {
    std::string kept;     ///< what the other side did not take yet
    bool ended = false;   ///< the source said so
    bool passed = false;  ///< and so did we, to the other side
};

class Pair {
public:
    Pair(sys::Fd inside, Dialling outside)
        : ends_{std::move(inside), std::move(outside.fd)}, dead_(outside.error != 0) {}

    bool is_over() const { return dead_ || (flows_[0].passed && flows_[1].passed); }

    /// What to wait for, for both ends; poll ignores the negative.
    void ask(pollfd* fds) const {
        for (std::size_t i = 0; i < 2; ++i) {
            short events = 0;
            if (!is_connecting_ && !flows_[i].ended && flows_[i].kept.empty()) events |= POLLIN;
            if (!flows_[1 - i].kept.empty() || (i == 1 && is_connecting_)) events |= POLLOUT;
            // A hang-up is reported unasked for: an end that only waits for its peer is left out.
            fds[i] = {events == 0 ? -1 : ends_[i].get(), events, 0};
        }
    }
    void on_ready(const pollfd* fds, Buffer& buffer) {
        if (is_connecting_ && fds[1].revents != 0) finish_connecting();
        if (is_connecting_ || dead_) return;
        for (std::size_t i = 0; i < 2 && !dead_; ++i) {
            if (fds[i].revents != 0 || fds[1 - i].revents != 0) move(i, buffer);
        }
    }
    /// As a port on which nobody listens would: at once, and not to be mistaken for an answer.
    void reset() {
        const linger hard = {1, 0};
        for (const sys::Fd& end : ends_)
            (void)::setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }

private:
    void finish_connecting() {
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(ends_[1].get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
            die();
            return;
        }
        is_connecting_ = false;
    }
    void die() {
        reset();
        dead_ = true;
    }
    /// From ends_[i] to the other one, until one of them would block or others have waited enough.
    void move(std::size_t i, Buffer& buffer) {
        Flow& flow = flows_[i];
        if (!flow.kept.empty()) {
            const std::string kept = std::exchange(flow.kept, {});
            if (!pass(i, kept)) return;
        }
        for (int round = 0; round < kRounds && !flow.ended; ++round) {
            const ssize_t got = ::recv(ends_[i].get(), buffer.data(), buffer.size(), 0);
            if (got < 0 && would_block(errno)) return;
            if (got < 0) return die();
            flow.ended = got == 0;
            if (!pass(i, {buffer.data(), static_cast<std::size_t>(got)})) return;
        }
        if (!flow.ended || flow.passed) return;
        ::shutdown(ends_[1 - i].get(), SHUT_WR);
        flow.passed = true;
    }
    /// False: the other side takes no more now, or is gone.
    bool pass(std::size_t i, std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t put =
                ::send(ends_[1 - i].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (put < 0 && !would_block(errno)) {
                die();
                return false;
            }
            if (put < 0) {
                flows_[i].kept = bytes;
                return false;
            }
            bytes.remove_prefix(static_cast<std::size_t>(put));
        }
        return true;
    }

    std::array<sys::Fd, 2> ends_;  ///< inside, outside
    std::array<Flow, 2> flows_;    ///< from ends_[i]
    bool is_connecting_ = true, dead_ = false;
};

}  // namespace

Forwarder::Forwarder(sys::Fd listener, Target target)
    : listener_(std::move(listener)), target_(std::move(target)) {
    tasks_.start("forwarder", [this](const std::stop_token& stop) { run(stop); });
}

Forwarder::~Forwarder() {
    tasks_.request_stop();
    wake_.notify();
    tasks_.stop_and_join();
}

void Forwarder::hold(bool held) {
    wish_.with([&](Wish& wish) { wish = {held, false}; });
    wake_.notify();
    const auto obeyed = [](const Wish& wish) { return wish.obeyed; };
    (void)wish_.wait(Deadline::in(kObeyLimit), {}, obeyed, obeyed);
}

void Forwarder::run(const std::stop_token& stop) {
    const std::optional<SocketAddress> target = literal_address(target_.host, target_.port);
    TY_ASSERT(target.has_value());
    std::list<Pair> pairs;
    std::vector<pollfd> fds;
    const auto buffer = std::make_unique<Buffer>();
    bool out_of_descriptors = false;
    while (!stop.stop_requested()) {
        const bool held = wish_.with([](Wish& wish) {
            wish.obeyed = true;
            return wish.held;
        });
        wish_.notify();
        fds.assign({{wake_.fd(), POLLIN, 0}});
        const bool accepts = !held && !out_of_descriptors && pairs.size() < kMostPairs;
        fds.push_back({accepts ? listener_.get() : -1, POLLIN, 0});
        if (!held) {
            for (const Pair& pair : pairs) {
                fds.resize(fds.size() + 2);
                pair.ask(&fds[fds.size() - 2]);
            }
        }
        const Deadline by = out_of_descriptors ? Deadline::in(kAcceptAgain) : Deadline::never();
        if (::poll(fds.data(), fds.size(), by.poll_timeout()) < 0 && errno != EINTR)
            throw_errno("poll {} descriptors", fds.size());
        out_of_descriptors = false;
        wake_.drain();
        std::size_t at = 2;
        if (fds.size() > 2) {
            for (Pair& pair : pairs) {
                pair.on_ready(&fds[at], *buffer);
                at += 2;
            }
            std::erase_if(pairs, [](const Pair& pair) { return pair.is_over(); });
        }
        if (fds[1].revents == 0) continue;
        sys::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd.is_open()) {
            out_of_descriptors = !would_block(errno) && errno != ECONNABORTED;
            continue;
        }
        const int on = 1;
        (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Pair& pair = pairs.emplace_back(std::move(fd), dial(*target));
        if (pair.is_over()) {
            pair.reset();
            pairs.pop_back();
        }
    }
}

}  // namespace ty::agent
