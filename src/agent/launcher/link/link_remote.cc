// SPDX-License-Identifier: Apache-2.0
// The connection of a RemoteLink.
#include "agent/launcher/link/remote_link.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/epoll.h>

namespace ty::agent {

namespace {

constexpr milliseconds kFirstConnect{2500}, kFirstHandshake{3000}, kConnectAgain{500};
constexpr milliseconds kShortestBackoff{5};
constexpr milliseconds kRefusalPatience{5000};
constexpr milliseconds kLastFlush{100};
constexpr std::size_t kReadPerRound = 1u << 20;

}  // namespace

RemoteLink::RemoteLink(sys::Poller& poller, RemoteOptions options, LinkCallbacks callbacks)
    : poller_(poller),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      secret_{
          .run_id = options_.policy.run_id,
          .token = options_.token.empty() ? weak_token(options_.policy.run_id) : options_.token},
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      jitter_(
          static_cast<std::minstd_rand::result_type>(std::hash<std::string>()(options_.facts.id))) {
    if (!epoll_.is_open()) throw_errno("make an epoll");
}

RemoteLink::~RemoteLink() {
    for (const char* what :
         {"beat", "fence", "attempt", "retry", "gone", "yield", "hopeless", "supersede"}) {
        poller_.cancel_timer(timer(what));
    }
    if (resolver_) poller_.remove(resolver_->fd());
    drop_claim();
    poller_.remove(epoll_.get());
}

void RemoteLink::open() {
    if (options_.endpoints.empty())
        throw_error(Code::invalid, "", "no rendezvous endpoint is given");
    poller_.add(epoll_.get(), [this] { on_io(); });
    if (!options_.state_dir.empty() && !CoordinatorLog::is_private(options_.state_dir)) {
        note("log_ignored", {{"why", format("{} belongs to or is writable by others",
                                            options_.state_dir.string())}});
        options_.state_dir.clear();
    }
    options_.facts.successor_port = 0;
    if (!options_.external) {
        const bool loopback =
            literal_address(options_.facts.address, 0).value_or(SocketAddress()).is_loopback();
        successor_listener_ = bind_port(0, loopback);
        if (successor_listener_.is_open() && start_listening(successor_listener_.get())) {
            options_.facts.successor_port = bound_port(successor_listener_.get());
        }
    }
    arm_patience(format("at {}:{} within {} s", options_.endpoints[0].first,
                        options_.endpoints[0].second, options_.policy.join_timeout.count() / 1000));
    Resolver::Names names = options_.endpoints;
    const bool all_literal = std::ranges::all_of(names, [](const auto& name) {
        return literal_address(name.first, name.second).has_value();
    });
    if (all_literal) {
        for (const auto& [host, port] : names) endpoints_.push_back({*literal_address(host, port)});
        return begin();
    }
    resolver_ = std::make_unique<Resolver>(std::move(names));
    poller_.add(resolver_->fd(), [this] { on_resolved(); });
}

/// Without end where somebody else knows better when the job is over.
void RemoteLink::arm_patience(const std::string& what) {
    if (options_.external) return;
    poller_.set_timer(timer("gone"), Deadline::in(options_.policy.join_timeout), [this, what] {
        give_up(Gone::unreachable,
                format("no coordinator could be reached{}{}{}{}", what.empty() ? "" : " ", what,
                       last_trouble_.empty() ? "" : ": ", last_trouble_));
    });
}

// ---- one attempt
// ---------------------------------------------------------------------------------

/// How long the present stage may take.
milliseconds RemoteLink::patience() const {
    if (!lease_.is_held()) return stage_ == Stage::dialling ? kFirstConnect : kFirstHandshake;
    if (stage_ == Stage::dialling) return kConnectAgain;
    // A successor's kernel takes our connection before that agent has noticed that it is its turn.
    const bool is_current = current_ && current_->text() == candidate_.address.text();
    return is_current ? lease_.length() : 2 * lease_.length();
}

void RemoteLink::attempt(const Candidate& candidate) {
    candidate_ = candidate;
    Dialling dialling = dial(candidate.address);
    ++epoch_;
    stage_ = Stage::dialling;
    if (dialling.error != 0) {
        return end_attempt(
            dialling.error == ECONNREFUSED ? Outcome::refused : Outcome::silent,
            format("{}: {}", candidate.address.text(), std::strerror(dialling.error)));
    }
    socket_ = FrameSocket(std::move(dialling.fd));
    introduction_.emplace(secret_, options_.facts.id);
    greeted_ = false;
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.fd(), &event) != 0) {
        throw_errno("watch the coordinator");
    }
    poller_.set_timer(timer("attempt"), Deadline::in(patience()), [this] {
        end_attempt(Outcome::silent, format("{}: no answer", candidate_.address.text()));
    });
}

/// Write what waits; ask to be told about room only while something does.
void RemoteLink::watch() {
    socket_.flush(clock_.monotonic());
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP;
    if (socket_.pending() > 0) event.events |= EPOLLOUT;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.fd(), &event);
}

bool RemoteLink::on_connected() {
    int failed = dial_result(socket_.fd());
    // Dialling a free port of one's own machine can connect a socket with itself.
    if (failed == 0 && is_connected_to_itself(socket_.fd())) failed = ECONNREFUSED;
    if (failed != 0) {
        end_attempt(failed == ECONNREFUSED ? Outcome::refused : Outcome::silent,
                    format("{}: {}", candidate_.address.text(), std::strerror(failed)));
        return false;
    }
    stage_ = Stage::shaking;
    poller_.set_timer(timer("attempt"), Deadline::in(patience()), [this] {
        end_attempt(Outcome::silent, format("{}: accepts connections, but does not speak",
                                            candidate_.address.text()));
    });
    watch();
    return true;
}

void RemoteLink::on_io() {
    epoll_event event = {};
    if (::epoll_wait(epoll_.get(), &event, 1, 0) <= 0 || !socket_.is_open()) return;
    check_fence();  // first: after a freeze of ours, what waits to be read is old
    if (stage_ == Stage::dialling && !on_connected()) return;
    const std::uint64_t epoch = epoch_;
    const FrameSocket::State state = socket_.receive(kReadPerRound);
    read_frames();
    if (epoch != epoch_ || !socket_.is_open()) return;
    if (state != FrameSocket::State::open) {
        return end_attempt(state == FrameSocket::State::ended ? Outcome::ended : Outcome::silent,
                           format("{}: the connection was lost", candidate_.address.text()));
    }
    watch();
}

void RemoteLink::read_frames() {
    const std::uint64_t epoch = epoch_;
    try {
        while (epoch == epoch_ && socket_.is_open()) {
            const std::optional<std::string_view> frame = socket_.next();
            if (!frame) return;
            take_frame(*frame);
        }
    } catch (const Error& error) {
        if (epoch != epoch_) throw;
        const Monotonic now = clock_.monotonic();
        const bool denied = error.code() == Code::denied;
        if (!denied) denied_since_.reset();
        if (denied && !denied_since_) {
            denied_since_ = now;
            note("coordinator_refuses",
                 {{"at", candidate_.address.text()}, {"why", error.message()}});
        }
        // Perhaps it is another job that is about to leave this port; not for long, though.
        if (denied && !lease_.is_held() && now - *denied_since_ > kRefusalPatience) {
            return give_up(Gone::refused, error.message());
        }
        end_attempt(Outcome::unsuited,
                    format("{}: {}", candidate_.address.text(), error.message()));
    }
}

void RemoteLink::take_frame(std::string_view frame) {
    if (stage_ != Stage::shaking) return take_message(rendezvous::decode_down(frame));
    if (!greeted_) {
        const std::optional<std::string> moved = read_moved(frame);
        if (moved && !options_.external) {
            return follow_signpost(*moved);
        }
        socket_.queue(introduction_->answer(frame, ids_));
        greeted_ = true;
        return;
    }
    host_id_ = introduction_->verify(frame);
    denied_since_.reset();
    socket_.set_limit(kDownLimit);
    say_hello();
}

void RemoteLink::say_hello() {
    stage_ = Stage::greeting;
    rendezvous::up::Hello hello;
    if (callbacks_.make_hello) hello = callbacks_.make_hello();
    hello.facts = options_.facts;
    hello.policy = options_.policy;
    if (hello.newest == 0) {
        hello.newest = newest_;
        hello.newest_nodes = newest_nodes_;
    }
    hello_sent_ = clock_.monotonic();
    socket_.queue(rendezvous::encode(rendezvous::Up(hello)));
    for (const rendezvous::Up& message : unconfirmed_.all(hello_sent_)) {
        socket_.queue(rendezvous::encode(message));
    }
}

// ---- the conversation
// ----------------------------------------------------------------------------

void RemoteLink::take_message(const rendezvous::Down& message) {
    using namespace rendezvous;
    if (const auto* answer = std::get_if<down::BeatAnswer>(&message)) {
        lease_.answered(answer->sequence);
        if (fenced_ && clock_.monotonic() < lease_.ends()) lift_fence();
        return;
    }
    if (const auto* snapshot = std::get_if<down::Snapshot>(&message)) {
        snapshot_ = snapshot->state;
        return;
    }
    if (const auto* refused = std::get_if<down::Refused>(&message)) {
        return give_up(Gone::refused, refused->why);
    }
    if (const auto* welcome = std::get_if<down::Welcome>(&message)) on_welcome(*welcome);
    if (const auto* start = std::get_if<down::Start>(&message)) {
        successors_ = start->assignment.successors;
        newest_ = start->assignment.generation;
        newest_nodes_ = start->assignment.group_world_size;
        if (claim_) claim_->set_generation(newest_);
        remember_where();
        unconfirmed_.started(start->assignment.generation);
        poller_.cancel_timer(timer("yield"));
    }
    if (const auto* finish = std::get_if<down::Finish>(&message)) {
        verdict_ = finish->verdict;
        if (*verdict_ != Verdict::drained) CoordinatorLog::remove(where_);
    }
    if (callbacks_.on_message) callbacks_.on_message(message);
}

void RemoteLink::on_welcome(const rendezvous::down::Welcome& welcome) {
    stage_ = Stage::joined;
    lease_.set_times(welcome.lease, welcome.fence);
    lease_.welcomed(hello_sent_);
    if (fenced_) lift_fence();
    abandoned_.clear();
    backoff_ = kShortestBackoff;
    current_ = candidate_.address;
    coordinator_gone_ = false;
    current_host_ = host_id_;
    refused_by_.clear();
    recovering_ = false;
    if (!host_) endpoint_listener_.close();  // another one coordinates
    poller_.cancel_timer(timer("attempt"));
    poller_.cancel_timer(timer("gone"));
    if (host_) host_->worked();
    put_up_signpost();
    remember_where();
    if (lost_) note("coordinator_back", {{"at", current_->text()}});
    lost_ = false;
    arm_fence();
    beat();
}

void RemoteLink::beat() {
    if (stage_ != Stage::joined) return;
    const Monotonic now = clock_.monotonic();
    if (host_ && lease_.is_uneasy(now)) host_->replace();
    if (lease_.is_silent(now)) {
        return end_attempt(Outcome::silent,
                           format("{}: no answer to our beats", candidate_.address.text()));
    }
    // The endpoint's port may have been in use when we wanted to put the signpost up.
    if (!signpost_ && !where_.empty()) put_up_signpost();
    socket_.queue(rendezvous::encode(rendezvous::Up(rendezvous::up::Beat{lease_.sent(now)})));
    watch();
    poller_.set_timer(timer("beat"), Deadline::in(lease_.beat_interval()), [this] { beat(); });
}

void RemoteLink::arm_fence() {
    poller_.set_timer(timer("fence"), Deadline::at(lease_.ends()), [this] {
        check_fence();
        if (!fenced_ && stage_ != Stage::over) arm_fence();
    });
}

void RemoteLink::check_fence() {
    if (fenced_ || verdict_ || !lease_.is_held() || stage_ == Stage::over) return;
    if (clock_.monotonic() < lease_.ends()) return;
    fenced_ = true;
    note("fenced", {{"last_trouble", last_trouble_}});
    if (callbacks_.on_fenced) {
        callbacks_.on_fenced(format("no answer from the coordinator{}{}",
                                    last_trouble_.empty() ? "" : ": ", last_trouble_));
    }
}

void RemoteLink::lift_fence() {
    fenced_ = false;
    note("fence_lifted");
    if (callbacks_.on_fence_lifted) callbacks_.on_fence_lifted();
    arm_fence();
}

void RemoteLink::send(const rendezvous::Up& message) {
    if (stage_ == Stage::over) return;
    unconfirmed_.add(message, clock_.monotonic());
    if (stage_ != Stage::joined && stage_ != Stage::greeting) return;
    socket_.queue(rendezvous::encode(message));
    watch();
}

// ---- endings
// -------------------------------------------------------------------------------------

/// Let the connection go: closed, or put aside when closing it would say too much.
void RemoteLink::let_go(Outcome outcome) {
    if (!socket_.is_open()) return;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.fd(), nullptr);
    const bool said_hello = stage_ == Stage::greeting || stage_ == Stage::joined;
    if (said_hello && outcome != Outcome::ended) abandoned_.push_back(socket_.take_fd());
    socket_ = FrameSocket();
}

void RemoteLink::end_attempt(Outcome outcome, const std::string& why) {
    const bool was_joined = stage_ == Stage::joined;
    last_trouble_ = why;
    if (outcome == Outcome::refused) refused_by_.insert(candidate_.address.text());
    poller_.cancel_timer(timer("attempt"));
    poller_.cancel_timer(timer("beat"));
    let_go(outcome);
    ++epoch_;
    stage_ = Stage::idle;
    if (verdict_) return;  // the job is over for us; nobody is missed
    if (was_joined) {
        lost_ = true;
        signpost_.reset();
        note("coordinator_lost", {{"why", why}});
        arm_patience("");
        new_round();
        return next_candidate();
    }
    const bool was_current = current_ && current_->text() == candidate_.address.text();
    if (was_current && outcome == Outcome::refused && !coordinator_gone_ && !host_) {
        coordinator_gone_ = true;
        new_round();
        return next_candidate();
    }
    // The same address may have more to offer in a moment: it closed on us.
    if (outcome == Outcome::ended && was_current) return retry_later();
    next_candidate();
}

void RemoteLink::give_up(Gone how, const std::string& why) {
    if (stage_ == Stage::over) return;
    let_go(Outcome::ended);
    ++epoch_;
    stage_ = Stage::over;
    for (const char* what : {"beat", "attempt", "retry", "gone", "yield"}) {
        poller_.cancel_timer(timer(what));
    }
    if (callbacks_.on_gone) callbacks_.on_gone(how, why);
}

void RemoteLink::close(milliseconds patience) {
    if (stage_ == Stage::joined) {
        socket_.queue(rendezvous::encode(rendezvous::Up(rendezvous::up::Bye())));
        // The coordinator closes when it has heard it.
        const Deadline by = Deadline::in(kLastFlush);
        while (!by.passed() && socket_.flush(clock_.monotonic()) == FrameSocket::State::open) {
            const auto wanted =
                socket_.pending() > 0 ? sys::Readiness::either : sys::Readiness::readable;
            if (sys::wait(socket_.fd(), wanted, by) != sys::Waited::ready) break;
            if (socket_.receive(kReadPerRound) != FrameSocket::State::open) break;
        }
    }
    let_go(Outcome::ended);
    ++epoch_;
    stage_ = Stage::over;
    if (host_) {
        // A job that goes on without us is left to the successors: they notice that nobody listens
        // here any more. One that is over is told to everybody first.
        const bool is_over = verdict_ && *verdict_ != rendezvous::Verdict::drained;
        if (is_over) host_->wait_for_end(Deadline::in(patience));
        host_.reset();
        if (is_over || successors_.empty()) CoordinatorLog::remove(log_);
    }
    signpost_.reset();
    drop_claim();
    endpoint_listener_.close();
    successor_listener_.close();
    abandoned_.clear();
}

void RemoteLink::note(const std::string& what,
                      std::vector<std::pair<std::string, std::string>> fields) {
    if (callbacks_.on_note) callbacks_.on_note({what, std::move(fields)});
}

std::unique_ptr<Link> make_remote_link(sys::Poller& poller, RemoteOptions options,
                                       LinkCallbacks callbacks) {
    return std::make_unique<RemoteLink>(poller, std::move(options), std::move(callbacks));
}

}  // namespace ty::agent
