// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/lease.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr std::size_t kMostBeats = 64;

/// Of which generation a message speaks; 0: of none.
std::int64_t generation_of(const rendezvous::Up& message) {
    using namespace rendezvous::up;
    if (const auto* stopped = std::get_if<Stopped>(&message)) return stopped->generation;
    if (const auto* failed = std::get_if<Failed>(&message)) return failed->generation;
    if (const auto* succeeded = std::get_if<Succeeded>(&message)) return succeeded->generation;
    if (const auto* saved = std::get_if<Checkpointed>(&message)) return saved->generation;
    return 0;
}

bool is_worth_repeating(const rendezvous::Up& message) {
    return generation_of(message) != 0 || std::holds_alternative<rendezvous::up::Leaving>(message);
}

}  // namespace

std::int64_t Lease::sent(Monotonic now) {
    beats_.emplace_back(++sequence_, now);
    if (beats_.size() > kMostBeats) beats_.pop_front();
    return sequence_;
}

void Lease::welcomed(Monotonic hello_sent) {
    beats_.clear();
    answered_ = hello_sent;
}

void Lease::answered(std::int64_t sequence) {
    while (!beats_.empty() && beats_.front().first <= sequence) {
        if (answered_) answered_ = std::max(*answered_, beats_.front().second);
        beats_.pop_front();
    }
}

void Unconfirmed::add(const rendezvous::Up& message, Monotonic now) {
    if (!is_worth_repeating(message)) return;
    const auto same = std::ranges::find_if(
        said_, [&message](const Said& said) { return said.message.index() == message.index(); });
    if (same != said_.end()) {
        // The first failure of a generation is its cause; later ones are echoes.
        const bool is_echo = std::holds_alternative<rendezvous::up::Failed>(message) &&
                             generation_of(same->message) == generation_of(message);
        if (is_echo) return;
        said_.erase(same);
    }
    said_.push_back({message, now});
}

void Unconfirmed::started(std::int64_t generation) {
    std::erase_if(said_, [generation](const Said& said) {
        const std::int64_t of = generation_of(said.message);
        return of != 0 && of < generation;
    });
}

std::vector<rendezvous::Up> Unconfirmed::all(Monotonic now) const {
    std::vector<rendezvous::Up> messages;
    for (const Said& said : said_) {
        messages.push_back(said.message);
        if (auto* leaving = std::get_if<rendezvous::up::Leaving>(&messages.back())) {
            const auto passed = std::chrono::duration_cast<milliseconds>(now - said.when);
            leaving->deadline = std::max(milliseconds(0), leaving->deadline - passed);
        }
    }
    return messages;
}

}  // namespace ty::agent
