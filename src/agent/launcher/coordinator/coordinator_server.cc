// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/coordinator/coordinator_server.h"

#include "base/error.h"
#include "base/log.h"

#include <algorithm>
#include <cerrno>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace ty::agent {

namespace {

constexpr std::size_t kStrangers = 256;
constexpr milliseconds kStrangerTime{3000};
/// A full house displaces strangers of this age: young when one address holds many (a flood; on the
/// same machine a handshake takes a millisecond), old when they look like nodes of a large job that
/// starts, for which the kernel's queue is the better place to wait.
constexpr milliseconds kFloodAge{20}, kCrowdAge{500};
constexpr int kFloodCount = 64;
constexpr int kAcceptsPerRound = 128;
constexpr std::size_t kReadPerRound = kUpLimit;
constexpr std::size_t kMostPending = 16u << 20;
constexpr milliseconds kStuckTime{5000};
constexpr std::uint64_t kListenerMark = std::uint64_t{1} << 63;
constexpr std::uint64_t kOtherMark = std::uint64_t{1} << 62;

std::string source_of(const sockaddr_storage& address) {
    char text[INET6_ADDRSTRLEN] = {};
    if (address.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
        ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    } else if (address.ss_family == AF_INET6) {
        const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
        ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    }
    return text;
}

void control(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t mark) {
    epoll_event event = {};
    event.events = events;
    event.data.u64 = mark;
    if (::epoll_ctl(epoll, operation, fd, &event) != 0) throw_errno("watch a connection");
}

/// What the network gave up on may live: then its lease decides, not we.
rendezvous::Lost meaning_of(FrameSocket::State state) {
    return state == FrameSocket::State::ended ? rendezvous::Lost::closed : rendezvous::Lost::silent;
}

}  // namespace

void RefusalLog::count(const std::string& kind, const std::string& detail, Monotonic now) {
    const auto [it, is_new] = kinds_.try_emplace(kind);
    ++it->second.unsaid;
    if (!is_new && now - it->second.said < std::chrono::minutes(1)) return;
    log::warning("rendezvous: refused a connection",
                 {{"why", kind}, {"detail", detail}, {"times", it->second.unsaid}});
    it->second = Kind{.said = now, .unsaid = 0};
}

CoordinatorServer::CoordinatorServer(std::vector<sys::Fd> listeners, JobSecret secret,
                                     std::string host, Ids& ids, const Clock& clock, Events events)
    : listeners_(std::move(listeners)),
      secret_(std::move(secret)),
      host_(std::move(host)),
      ids_(ids),
      clock_(clock),
      events_(std::move(events)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      now_(clock.monotonic()) {
    if (!epoll_.is_open()) throw_errno("make an epoll");
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
        control(epoll_.get(), EPOLL_CTL_ADD, listeners_[i].get(), EPOLLIN, kListenerMark | i);
    }
}

CoordinatorServer::~CoordinatorServer() = default;

void CoordinatorServer::watch(int fd) {
    control(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN, kOtherMark);
}

void CoordinatorServer::receive(Deadline by) {
    now_ = clock_.monotonic();
    if (paused_until_ && now_ >= *paused_until_) watch_listeners(true);
    // After a long wait all that has arrived is read before anybody looks at the time: beats that
    // waited in our own buffers must not count as silence.
    bool more = collect(dirty_.empty() ? by.poll_timeout() : 0);
    for (int rounds = 0; more && rounds < 16; ++rounds) more = collect(0);
    expire_strangers();
    drop_stuck();
}

bool CoordinatorServer::collect(int timeout) {
    epoll_event events[512];
    const int count = ::epoll_wait(epoll_.get(), events, 512, timeout);
    if (count < 0 && errno != EINTR) throw_errno("wait for nodes");
    now_ = clock_.monotonic();
    std::vector<std::size_t> ready;
    for (int i = 0; i < count; ++i) {
        const std::uint64_t mark = events[i].data.u64;
        if (mark == kOtherMark) continue;
        if ((mark & kListenerMark) != 0) {
            ready.push_back(static_cast<std::size_t>(mark & ~kListenerMark));
            continue;
        }
        if ((events[i].events & EPOLLOUT) != 0) write_to(mark);
        if ((events[i].events & ~std::uint32_t{EPOLLOUT}) != 0) read_from(mark);
    }
    for (const std::size_t index : ready)
        accept_some(listeners_[index].get());  // known nodes first
    return count == 512;
}

void CoordinatorServer::accept_some(int listener) {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
        if (stranger_count_ >= kStrangers && !make_room()) return pause_accepting(milliseconds(5));
        sockaddr_storage address = {};
        socklen_t size = sizeof address;
        sys::Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd.is_open()) {
            adopt(std::move(fd), source_of(address));
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            refusals_.count("no descriptors", "connections wait", now_);
            return pause_accepting(milliseconds(50));
        }
        // Everything else is about that one connection.
    }
}

void CoordinatorServer::adopt(sys::Fd fd, std::string source) {
    tune_connection(fd.get());
    const PeerId id = ++next_id_;
    auto peer = std::make_unique<Peer>();
    peer->socket = FrameSocket(std::move(fd));
    peer->source = std::move(source);
    peer->nonce = make_nonce(ids_);
    peer->accepted = now_;
    control(epoll_.get(), EPOLL_CTL_ADD, peer->socket.fd(), EPOLLIN | EPOLLRDHUP, id);
    peer->socket.queue(greeting(peer->nonce));
    ++by_source_[peer->source];
    ++stranger_count_;
    strangers_.push_back(id);
    Peer& placed = *peer;
    peers_.emplace(id, std::move(peer));
    if (placed.socket.flush(now_) != FrameSocket::State::open) drop(id);
}

/// Displace the oldest stranger of the address that has most of them, if it is old enough.
bool CoordinatorServer::make_room() {
    const auto busiest = std::ranges::max_element(
        by_source_, {},
        [](const std::pair<const std::string, int>& entry) { return entry.second; });
    if (busiest == by_source_.end()) return true;
    const milliseconds age = busiest->second >= kFloodCount ? kFloodAge : kCrowdAge;
    const std::string source = busiest->first;
    while (!strangers_.empty() && !peers_.contains(strangers_.front())) strangers_.pop_front();
    for (const PeerId id : strangers_) {
        const auto it = peers_.find(id);
        if (it == peers_.end() || !it->second->node.empty()) continue;
        if (it->second->source != source) continue;
        if (now_ - it->second->accepted < age) return false;
        refuse(id, "too many strangers", source);
        return true;
    }
    return false;
}

void CoordinatorServer::read_from(PeerId id) {
    const auto it = peers_.find(id);
    if (it == peers_.end()) return;
    Peer& peer = *it->second;
    const FrameSocket::State state =
        peer.socket.receive(peer.node.empty() ? kHandshakeLimit : kReadPerRound);
    serve_frames(id, peer);
    if (state != FrameSocket::State::open && peers_.contains(id)) lose(id, meaning_of(state));
}

void CoordinatorServer::serve_frames(PeerId id, Peer& peer) {
    try {
        while (peers_.contains(id)) {
            const std::optional<std::string_view> frame = peer.socket.next();
            if (!frame || !take_frame(id, peer, *frame)) return;
        }
    } catch (const Error& error) {
        // Either garbage or no proof. Strangers that lack the token are told so, once.
        if (error.code() == Code::denied) {
            peer.socket.queue(refusal(error.reason()));
            peer.socket.flush(now_);
        }
        refuse(id, error.reason().empty() ? "not our protocol" : error.reason(),
               format("{}: {}", peer.source, error.message()));
    }
}

/// False when the connection is over.
bool CoordinatorServer::take_frame(PeerId id, Peer& peer, std::string_view frame) {
    if (peer.node.empty()) {
        welcome_known(id, peer, frame);
        return true;
    }
    if (!peer.said_hello) {
        if (const std::optional<ClaimFrame> claim = read_claim(frame)) {
            const std::optional<std::int64_t> ours = events_.on_claim(*claim);
            if (ours) peer.socket.queue(ahead_frame(*ours));
            peer.leaving = true;
            mark_dirty(id, peer);
            return false;
        }
    }
    const rendezvous::Up message = rendezvous::decode_up(frame);
    if (const auto* hello = std::get_if<rendezvous::up::Hello>(&message)) {
        if (hello->facts.id != peer.node) {
            refuse(id, "false name", format("{} says it is {}", peer.node, hello->facts.id));
            return false;
        }
        peer.said_hello = true;
        // A newer connection of the same node replaces the older: that is no loss.
        const auto [it, is_new] = nodes_.try_emplace(peer.node, id);
        if (!is_new && it->second != id) {
            const PeerId older = it->second;
            it->second = id;
            drop(older);
        }
    } else if (!peer.said_hello) {
        refuse(id, "no hello", peer.node);
        return false;
    }
    events_.on_message(peer.node, message);
    if (std::holds_alternative<rendezvous::up::Bye>(message)) {
        peer.leaving = true;  // closed once what it was told is out: that says the Bye was heard
        mark_dirty(id, peer);
    }
    return true;
}

void CoordinatorServer::welcome_known(PeerId id, Peer& peer, std::string_view frame) {
    const Admission admission = admit(secret_, host_, peer.nonce, frame);
    peer.node = admission.node;
    peer.socket.set_limit(kUpLimit);
    peer.socket.queue(admission.answer);
    mark_dirty(id, peer);
    if (--by_source_[peer.source] == 0) by_source_.erase(peer.source);
    --stranger_count_;
    if (paused_until_) watch_listeners(true);
}

void CoordinatorServer::send(const std::string& node, std::string_view frame) {
    const auto it = nodes_.find(node);
    if (it == nodes_.end()) return;
    Peer& peer = *peers_.at(it->second);
    peer.socket.queue(frame);
    mark_dirty(it->second, peer);
}

void CoordinatorServer::mark_dirty(PeerId id, Peer& peer) {
    if (peer.dirty) return;
    peer.dirty = true;
    dirty_.push_back(id);
}

void CoordinatorServer::flush() {
    now_ = clock_.monotonic();
    const std::vector<PeerId> dirty = std::exchange(dirty_, {});
    for (const PeerId id : dirty) write_to(id);
}

void CoordinatorServer::write_to(PeerId id) {
    const auto it = peers_.find(id);
    if (it == peers_.end()) return;
    Peer& peer = *it->second;
    peer.dirty = false;
    const FrameSocket::State state = peer.socket.flush(now_);
    if (state == FrameSocket::State::broken) return lose(id, rendezvous::Lost::silent);
    // After "ended" the last words may still be unread; reading finds the end by itself.
    const bool waits = state == FrameSocket::State::open && peer.socket.pending() > 0;
    if (peer.leaving && !waits) return drop(id);
    if (waits != peer.wants_write) {
        const std::uint32_t events = EPOLLIN | EPOLLRDHUP | (waits ? std::uint32_t{EPOLLOUT} : 0u);
        control(epoll_.get(), EPOLL_CTL_MOD, peer.socket.fd(), events, id);
        peer.wants_write = waits;
    }
    if (waits) {
        blocked_.insert(id);
    } else {
        blocked_.erase(id);
    }
}

/// Forget the connection without a word to the state machine.
void CoordinatorServer::drop(PeerId id) {
    const auto it = peers_.find(id);
    if (it == peers_.end()) return;
    const Peer& peer = *it->second;
    if (peer.node.empty()) {
        if (const auto source = by_source_.find(peer.source);
            source != by_source_.end() && --source->second == 0) {
            by_source_.erase(source);
        }
        --stranger_count_;
    } else if (const auto node = nodes_.find(peer.node);
               node != nodes_.end() && node->second == id) {
        nodes_.erase(node);
    }
    blocked_.erase(id);
    peers_.erase(it);  // closing takes it out of the epoll
}

void CoordinatorServer::lose(PeerId id, rendezvous::Lost how) {
    const std::string node = peers_.at(id)->node;
    const auto it = nodes_.find(node);
    const bool is_current = it != nodes_.end() && it->second == id;
    drop(id);
    if (is_current) events_.on_lost(node, how);
}

void CoordinatorServer::refuse(PeerId id, const std::string& kind, const std::string& detail) {
    refusals_.count(kind, detail, now_);
    lose(id, rendezvous::Lost::silent);
}

void CoordinatorServer::expire_strangers() {
    while (!strangers_.empty()) {
        const PeerId id = strangers_.front();
        const auto it = peers_.find(id);
        if (it != peers_.end() && it->second->node.empty()) {
            if (now_ - it->second->accepted < kStrangerTime) return;
            refuse(id, "no handshake in time", it->second->source);
        }
        strangers_.pop_front();
    }
}

void CoordinatorServer::drop_stuck() {
    const std::set<PeerId> blocked = blocked_;
    for (const PeerId id : blocked) {
        const Peer& peer = *peers_.at(id);
        if (peer.socket.pending() > kMostPending || now_ - peer.socket.stuck_since() > kStuckTime) {
            refuse(id, "does not read", peer.node);
        }
    }
}

void CoordinatorServer::pause_accepting(milliseconds time) {
    watch_listeners(false);
    paused_until_ = now_ + time;
}

void CoordinatorServer::watch_listeners(bool on) {
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
        control(epoll_.get(), EPOLL_CTL_MOD, listeners_[i].get(), on ? std::uint32_t{EPOLLIN} : 0u,
                kListenerMark | i);
    }
    if (on) paused_until_.reset();
}

Deadline CoordinatorServer::next_deadline() const {
    Deadline by = Deadline::never();
    if (paused_until_) by = Deadline::at(*paused_until_);
    if (!strangers_.empty()) {
        const auto it = peers_.find(strangers_.front());
        const Monotonic accepted = it == peers_.end() ? now_ : it->second->accepted;
        by = Deadline::earlier(by, Deadline::at(accepted + kStrangerTime));
    }
    if (!blocked_.empty()) by = Deadline::earlier(by, Deadline::at(now_ + milliseconds(500)));
    return by;
}

}  // namespace ty::agent
