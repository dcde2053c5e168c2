// SPDX-License-Identifier: Apache-2.0
// A job of one node: the coordinator is the state machine in this process. Messages are delivered
// from the poller, never from inside send(), so that the launcher's handlers do not nest.
#include "agent/launcher/link/link.h"

#include <deque>

namespace ty::agent {

namespace {

constexpr const char* kDelivery = "link.delivery";
constexpr const char* kTick = "link.tick";

class LocalLink final : public Link {
public:
    LocalLink(sys::Poller& poller, rendezvous::Policy policy, LinkCallbacks callbacks)
        : poller_(poller), callbacks_(std::move(callbacks)), rendezvous_(std::move(policy)) {}
    ~LocalLink() override {
        poller_.cancel_timer(kDelivery);
        poller_.cancel_timer(kTick);
    }

    void open() override {
        const rendezvous::up::Hello hello = callbacks_.make_hello();
        node_ = hello.facts.id;
        perform(rendezvous_.receive(node_, hello, clock_.monotonic()));
    }

    void send(const rendezvous::Up& message) override {
        perform(rendezvous_.receive(node_, message, clock_.monotonic()));
    }

    void close(milliseconds) override {
        poller_.cancel_timer(kTick);
        poller_.cancel_timer(kDelivery);
        waiting_.clear();
    }

private:
    void perform(rendezvous::Effects effects) {
        for (const rendezvous::Effects::Note& note : effects.notes) callbacks_.on_note(note);
        for (rendezvous::Effect& effect : effects.messages) {
            if (!effect.to.empty()) waiting_.push_back(std::move(effect.message));
        }
        if (!waiting_.empty()) {
            poller_.set_timer(kDelivery, Deadline::at(clock_.monotonic()), [this] { deliver(); });
        }
        const Deadline next = rendezvous_.next_deadline();
        if (next.is_never()) {
            poller_.cancel_timer(kTick);
        } else {
            poller_.set_timer(kTick, next, [this] { tick(); });
        }
    }

    void tick() {
        // The node is this process: as long as it runs, its lease is fresh.
        perform(rendezvous_.receive(node_, rendezvous::up::Beat{}, clock_.monotonic()));
        perform(rendezvous_.tick(clock_.monotonic()));
    }

    void deliver() {
        while (!waiting_.empty()) {
            const rendezvous::Down message = std::move(waiting_.front());
            waiting_.pop_front();
            callbacks_.on_message(message);
        }
    }

    sys::Poller& poller_;
    LinkCallbacks callbacks_;
    SystemClock clock_;
    rendezvous::Rendezvous rendezvous_;
    std::string node_;
    std::deque<rendezvous::Down> waiting_;
};

}  // namespace

std::unique_ptr<Link> make_local_link(sys::Poller& poller, rendezvous::Policy policy,
                                      LinkCallbacks callbacks) {
    // Beats within one process would only wake it up: the lease is as long as anybody waits.
    policy.lease = policy.fence = std::chrono::hours(24);
    return std::make_unique<LocalLink>(poller, std::move(policy), std::move(callbacks));
}

}  // namespace ty::agent
