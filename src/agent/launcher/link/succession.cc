// SPDX-License-Identifier: Apache-2.0
// Whom a RemoteLink dials, and when it hosts the coordinator itself.
#include "agent/launcher/link/remote_link.h"

#include "base/error.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr milliseconds kLongestBackoff{200};
constexpr milliseconds kResolveAgain{1000};

}  // namespace

// ---- the beginning
// -------------------------------------------------------------------------------

void RemoteLink::on_resolved() {
    poller_.remove(resolver_->fd());
    endpoints_ = resolver_->take();
    resolver_.reset();
    const bool none = std::ranges::all_of(
        endpoints_, [](const std::vector<SocketAddress>& list) { return list.empty(); });
    if (!none) return begin();
    // A name may come into being a moment after us (a headless service, a starting machine).
    last_trouble_ = format("cannot resolve host \"{}\"", options_.endpoints[0].first);
    poller_.set_timer(timer("retry"), Deadline::in(kResolveAgain), [this] {
        resolver_ = std::make_unique<Resolver>(options_.endpoints);
        poller_.add(resolver_->fd(), [this] { on_resolved(); });
    });
}

void RemoteLink::begin() {
    const bool is_near = !endpoints_[0].empty() && endpoints_[0][0].is_loopback();
    if (options_.token.empty() && !is_near) {
        note("weak_token", {{"remedy",
                             "set TRAINYARD_RDZV_TOKEN: the token of this job is derived from "
                             "its run id, which others may know"}});
    }
    const auto& [name, port] = options_.endpoints[0];
    if (!options_.external && !options_.state_dir.empty() && port != 0 &&
        std::ranges::any_of(endpoints_[0], is_of_this_machine)) {
        where_ = CoordinatorLog::path_for(options_.state_dir, options_.policy.run_id,
                                          format("{}:{}", name, port));
        where_ += ".where";
    }
    if (try_to_host()) return;
    new_round();
    next_candidate();
}

/// True when this agent is the first of the job on the endpoint's machine.
bool RemoteLink::try_to_host() {
    signpost_.reset();
    if (options_.external || !options_.may_host || host_ || lease_.is_held()) return false;
    const auto& [name, port] = options_.endpoints[0];
    const bool is_here = port == 0 || std::ranges::any_of(endpoints_[0], is_of_this_machine);
    if (!is_here) return false;
    const std::optional<SocketAddress> literal = literal_address(name, port);
    endpoint_listener_ = bind_port(port, literal && literal->is_loopback());
    if (!endpoint_listener_.is_open()) return false;  // another agent here was first

    // Was a coordinator of this job here before? Then its successors may have taken over: ask them
    // while our port still refuses, so that they see clearly.
    const std::string endpoint = format("{}:{}", name, port);
    if (!options_.state_dir.empty() && port != 0) {
        log_ = CoordinatorLog::path_for(options_.state_dir, options_.policy.run_id, endpoint);
    }
    asked_first_.clear();
    found_snapshot_.clear();
    std::int64_t logged = 0;
    if (auto record = CoordinatorLog::load(log_, clock_, options_.policy.join_timeout)) {
        try {
            const auto machine = rendezvous::Rendezvous::restore(record->snapshot, options_.policy,
                                                                 clock_.monotonic());
            if (machine.phase() != rendezvous::Phase::over) {
                found_snapshot_ = std::move(record->snapshot);
                logged = machine.generation();
                const auto view = machine.view();
                if (!view.members.empty()) asked_first_ = view.members[0].second.successors;
            }
        } catch (const Error& error) {
            note("log_ignored", {{"why", error.what()}});
        }
    }
    if (auto where = Whereabouts::load(where_, clock_, options_.policy.join_timeout)) {
        if (where->generation > logged) {
            found_snapshot_.clear();  // others have gone on since
            newest_ = std::max(newest_, where->generation);
            newest_nodes_ = where->nodes;
        }
        asked_first_.insert(asked_first_.begin(), where->places.begin(), where->places.end());
    }
    recovering_ = !asked_first_.empty();
    if (!recovering_) {
        host_endpoint();
        return host_ != nullptr;
    }
    new_round();
    next_candidate();
    return true;
}

void RemoteLink::host_endpoint() {
    recovering_ = false;
    if (!start_listening(endpoint_listener_.get())) {  // a race lost after the bind
        endpoint_listener_.close();
        return;
    }
    if (found_snapshot_.empty()) CoordinatorLog::remove(log_);
    const auto& [name, port] = options_.endpoints[0];
    const int own_port = port != 0 ? port : bound_port(endpoint_listener_.get());
    // If every successor's address refuses, nobody can be coordinating elsewhere. One that is only
    // silent may be: then most of the nodes must agree.
    const bool nobody_else = all_refused(asked_first_);
    if (nobody_else) newest_nodes_ = 0;  // nobody is left whose consent would count
    start_hosting({endpoint_listener_.get()},
                  {.snapshot = found_snapshot_,
                   .needs_majority = !nobody_else,
                   .abandon_absent = nobody_else && !found_snapshot_.empty()},
                  format("{}:{}", name, own_port));
    new_round();
    next_candidate();
}

bool RemoteLink::all_refused(
    const std::vector<rendezvous::Assignment::Successor>& successors) const {
    return std::ranges::all_of(successors, [this](const auto& successor) {
        const auto address =
            literal_address(successor.address, static_cast<std::uint16_t>(successor.port));
        return address && refused_by_.contains(address->text());
    });
}

/// Whose addresses refuse connections: the agent that hosted, and successors before us.
std::vector<DeadNode> RemoteLink::dead_nodes() const {
    std::vector<DeadNode> dead;
    if (!coordinator_gone_) return dead;
    if (!current_host_.empty()) dead.push_back({current_host_, current_->text()});
    for (const auto& successor : successors_) {
        if (successor.id != options_.facts.id && successor.id != current_host_ &&
            all_refused({successor})) {
            dead.push_back({successor.id, successor.address});
        }
    }
    return dead;
}

void RemoteLink::start_hosting(std::vector<int> listeners, CoordinatorStart start,
                               const std::string& endpoint) {
    const std::uint16_t port = bound_port(listeners[0]);
    if (!options_.state_dir.empty()) {
        log_ = CoordinatorLog::path_for(options_.state_dir, options_.policy.run_id, endpoint);
    }
    const bool needs_majority = start.needs_majority;
    start.policy = options_.policy;
    start.secret = secret_;
    start.log = log_.string();
    start.host = options_.facts.id;
    host_ = std::make_unique<CoordinatorHost>(
        poller_, options_.agent_binary, std::move(start), std::move(listeners),
        CoordinatorHost::Events{
            .on_note =
                [this](const rendezvous::Effects::Note& said) {
                    if (said.what == "superseded" && !said.fields.empty()) {
                        step_down(said.fields.front().second);
                    }
                    if (callbacks_.on_note) callbacks_.on_note(said);
                },
            .on_hopeless = [this](const std::string& why) { on_hopeless(why); }});
    options_.facts.successor_port = 0;  // who coordinates does not succeed itself
    signpost_.reset();
    drop_claim();
    if (!endpoint_listener_.is_open()) {
        claim_ = std::make_unique<Claim>(secret_, options_.facts.id, options_.endpoints,
                                         format("{}:{}", options_.facts.address, port));
        claim_->set_generation(newest_);
        poller_.add(claim_->fd(), [this] { step_down(claim_->leader()); });
    }
    current_ = literal_address("127.0.0.1", port);
    coordinator_gone_ = false;
    note("coordinating",
         {{"port", std::to_string(port)}, {"needs_majority", needs_majority ? "true" : "false"}});
    host_->launch();
}

void RemoteLink::on_hopeless(const std::string& why) {
    // From a timer: we are inside a call of the host's.
    poller_.set_timer(timer("hopeless"), Deadline::in(milliseconds(0)), [this, why] {
        host_.reset();
        give_up(Gone::unreachable, why);
    });
}

// ---- succession
// ----------------------------------------------------------------------------------

void RemoteLink::take_over() {
    const bool needs_majority = !coordinator_gone_;
    std::vector<int> listeners = {successor_listener_.get()};
    // On the endpoint's machine newcomers still come to the endpoint's port.
    const auto& [name, port] = options_.endpoints[0];
    const bool is_here = !endpoints_[0].empty() && is_of_this_machine(endpoints_[0][0]);
    if (is_here && port != 0) {
        const std::optional<SocketAddress> literal = literal_address(name, port);
        endpoint_listener_ = bind_port(port, literal && literal->is_loopback());
        if (endpoint_listener_.is_open() && start_listening(endpoint_listener_.get())) {
            listeners.push_back(endpoint_listener_.get());
        } else {
            endpoint_listener_.close();
        }
    }
    previous_ = current_;
    note("taking_over", {{"from", previous_ ? previous_->text() : ""}});
    start_hosting(std::move(listeners),
                  {.snapshot = snapshot_, .needs_majority = needs_majority, .dead = dead_nodes()},
                  format("{}:{}", options_.facts.address, bound_port(successor_listener_.get())));
    if (needs_majority) {
        poller_.set_timer(timer("yield"), Deadline::in(8 * lease_.length()), [this] { yield(); });
    }
    new_round();
    next_candidate();
}

void RemoteLink::drop_claim() {
    if (claim_) poller_.remove(claim_->fd());
    claim_.reset();
}

/// Our coordinator has heard of one of the same job that is further.
void RemoteLink::step_down(const std::string& address) {
    // From a timer: we are inside a call of the host's.
    poller_.set_timer(timer("supersede"), Deadline::in(milliseconds(0)), [this, address] {
        note("stepping_down", {{"for", address}});
        host_.reset();
        drop_claim();
        CoordinatorLog::remove(log_);
        endpoint_listener_.close();
        recovering_ = false;
        if (successor_listener_.is_open()) {
            options_.facts.successor_port = bound_port(successor_listener_.get());
        }
        current_.reset();
        if (stage_ == Stage::joined) end_attempt(Outcome::ended, "the job went on elsewhere");
        follow_signpost(address);
    });
}

void RemoteLink::remember_where() const {
    if (where_.empty() || newest_ == 0) return;
    Whereabouts where{.generation = newest_, .nodes = newest_nodes_, .places = successors_};
    if (host_) {
        const int listener =
            endpoint_listener_.is_open() ? endpoint_listener_.get() : successor_listener_.get();
        where.places.insert(where.places.begin(),
                            {options_.facts.id, options_.facts.address, bound_port(listener)});
    } else if (current_) {
        const std::optional<Place> place = split_place(current_->text());
        if (place) {
            where.places.insert(where.places.begin(),
                                {current_host_, place->first, static_cast<int>(place->second)});
        }
    }
    where.save(where_);
}

/// Newcomers come to the endpoint, wherever the coordinator has gone.
void RemoteLink::put_up_signpost() {
    signpost_.reset();
    const auto& [name, port] = options_.endpoints[0];
    const bool is_here = port != 0 && std::ranges::any_of(endpoints_[0], is_of_this_machine);
    if (host_ || !is_here || options_.external) return;
    const std::optional<SocketAddress> literal = literal_address(name, port);
    sys::Fd listener = bind_port(port, literal && literal->is_loopback());
    if (!listener.is_open() || !start_listening(listener.get())) return;
    signpost_ = std::make_unique<Signpost>(poller_, std::move(listener), current_->text());
}

/// Dial where a signpost points, once a round.
void RemoteLink::follow_signpost(const std::string& address) {
    const std::optional<Place> place = split_place(address);
    const std::optional<SocketAddress> target =
        place ? literal_address(place->first, place->second) : std::nullopt;
    const bool is_new = target && std::ranges::none_of(round_, [&](const Candidate& candidate) {
                            return !candidate.is_self && candidate.address.text() == target->text();
                        });
    if (is_new) {
        note("moved", {{"to", address}});
        round_.insert(round_.begin() + static_cast<std::ptrdiff_t>(next_),
                      Candidate{.address = *target});
    }
    if (stage_ != Stage::idle) {
        end_attempt(Outcome::unsuited,
                    format("{}: points to {}", candidate_.address.text(), address));
    } else {
        poller_.cancel_timer(timer("retry"));
        next_candidate();
    }
}

/// Most of the nodes did not come: they may be on the other side of a split that has healed by now.
/// Look for them, and be there again if that is in vain.
void RemoteLink::yield() {
    note("yielding", {{"why", "the majority of the nodes did not come"}});
    host_.reset();
    drop_claim();
    CoordinatorLog::remove(log_);
    endpoint_listener_.close();
    options_.facts.successor_port = bound_port(successor_listener_.get());
    current_ = previous_;
    if (stage_ == Stage::joined) return end_attempt(Outcome::silent, "too few nodes came");
    new_round();
    next_candidate();
}

void RemoteLink::add_candidate(const SocketAddress& address) {
    const std::string text = address.text();
    const bool is_known = std::ranges::any_of(round_, [&text](const Candidate& other) {
        return !other.is_self && other.address.text() == text;
    });
    if (!is_known) round_.push_back({.address = address});
}

void RemoteLink::add_successors(const std::vector<rendezvous::Assignment::Successor>& successors) {
    for (const auto& successor : successors) {
        if (successor.id == options_.facts.id) {
            const bool can = !snapshot_.empty() && successor_listener_.is_open();
            if (can) round_.push_back({.is_self = true});
            continue;
        }
        if (successor.port <= 0 || successor.port > 65535) continue;
        const auto address =
            literal_address(successor.address, static_cast<std::uint16_t>(successor.port));
        if (address) add_candidate(*address);
    }
}

void RemoteLink::new_round() {
    round_.clear();
    next_ = 0;
    if (recovering_) return add_successors(asked_first_);
    if (host_) return add_candidate(*current_);
    if (current_ && !coordinator_gone_) add_candidate(*current_);
    if (coordinator_gone_) add_successors(successors_);
    const bool is_lost = lease_.is_held() && lease_.is_lost(clock_.monotonic());
    if (current_ && !coordinator_gone_ && !is_lost) return;  // it may come back
    for (const auto& list : endpoints_) {
        for (const SocketAddress& address : list) add_candidate(address);
    }
    if (current_) add_candidate(*current_);
    if (!coordinator_gone_) add_successors(successors_);
}

void RemoteLink::next_candidate() {
    if (stage_ == Stage::over) return;
    if (next_ < round_.size()) {
        const Candidate candidate = round_[next_++];
        if (candidate.is_self) return take_over();
        return attempt(candidate);
    }
    if (recovering_) {
        host_endpoint();  // nobody has taken over: go on from the log
        if (host_) return;
    }
    retry_later();
}

void RemoteLink::retry_later() {
    const auto spread = static_cast<milliseconds::rep>(jitter_() % 1000);
    const milliseconds wait = backoff_ * (500 + spread) / 1000 + milliseconds(1);
    backoff_ = std::min(backoff_ * 2, kLongestBackoff);
    poller_.set_timer(timer("retry"), Deadline::in(wait), [this] {
        if (stage_ != Stage::idle) return;
        if (try_to_host()) return;
        new_round();
        next_candidate();
    });
}

}  // namespace ty::agent
