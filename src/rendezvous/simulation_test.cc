// SPDX-License-Identifier: Apache-2.0
// Thousands of seeded disasters over simulated 8-node jobs: kills, freezes, partitions, power loss,
// coordinator restarts and successions, failures, departures, duplicates, slow links. The
// simulation is a queue of events in milliseconds; agents in it obey the protocol as README.md
// states it. A failing seed prints itself; TY_SEED=<n> runs that one alone.
#include "rendezvous/testing.h"

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

using namespace ty;
using namespace ty::rendezvous;

namespace {

using Ms = std::int64_t;
constexpr int kMachines = 8;
constexpr Ms kBeat = 600, kRetry = 150, kFaults = 6000, kCalm = 40000;
constexpr Ms kForever = Ms{1} << 40U;

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void must(bool holds, const std::string& what) {
    if (!holds) throw Violation(what);
}

struct Agent {
    std::string id;
    int machine = 0;
    bool alive = true, told_end = false, leaving = false, killing = false, succeeded = false;
    Ms frozen_until = 0;
    Ms answered = 0;  ///< when the last answered message was sent
    int link = -1;
    std::int64_t running = 0, newest = 0;
    int newest_nodes = 0;
    std::vector<Assignment::Successor> successors;
    std::string copy;  ///< the snapshot it holds as a successor
    Ms lost_at = 0, greeted_at = 0;
    int batch = 0;  ///< which set of Starts its workers belong to
    std::optional<Verdict> verdict;
};

struct Coordinator {
    Rendezvous machine;
    int place = 0;
    bool alive = true;
    std::string disk;
    Ms tick_at = kForever;
    std::map<std::string, int> links;  ///< id -> newest connection
    std::set<std::string> known;
};

struct Link {
    int agent = 0, coordinator = 0;
    Ms last_up = 0, last_down = 0;
    Ms held_up = 0, held_down = 0;  ///< what was held up keeps its place in the order
};

class Simulation {
public:
    explicit Simulation(std::uint64_t seed) : random_(seed) {
        policy_.run_id = "sim";
        policy_.min_nodes = chance(30) ? 4 : chance(50) ? 1 : 2;
        policy_.max_nodes = kMachines;
        policy_.max_restarts = chance(15) ? 0 : chance(20) ? 2 : 50;
        policy_.join_timeout = seconds(20);
        policy_.warm_timeout = milliseconds(500);
        policy_.resize_debounce = milliseconds(200);
        policy_.resize = chance(30) ? ResizeWhen::checkpoint : ResizeWhen::now;
        policy_.resize_deadline = seconds(2);
        policy_.last_call = milliseconds(300);
        host(0, Rendezvous(policy_));
        for (int machine = 0; machine < kMachines; ++machine) spawn(machine);
        const Ms faults = pick(1, 6);
        for (Ms i = 0; i < faults; ++i) at(pick(300, kFaults), [this] { fault(); });
        at(kFaults + 1, [this] { calm(); });
    }

    void run() {
        while (!events_.empty() && !settled_) {
            Event event = std::move(const_cast<Event&>(events_.top()));
            events_.pop();
            if (event.when > kFaults + kCalm) must(false, "the job is stuck: " + describe());
            now_ = event.when;
            event.run();
        }
        if (!settled_) must(false, "nothing happens any more: " + describe());
    }
    /// The faults left a job that could be finished.
    bool finished() const { return finished_; }
    int successions() const { return successions_; }

private:
    struct Event {
        Ms when;
        std::uint64_t order;
        std::function<void()> run;
        bool operator<(const Event& other) const {
            return std::pair(when, order) > std::pair(other.when, other.order);
        }
    };

    void at(Ms when, std::function<void()> run) { events_.push({when, ++order_, std::move(run)}); }
    Ms pick(Ms low, Ms high) {
        return low + static_cast<Ms>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool chance(int percent) { return pick(1, 100) <= percent; }
    Monotonic clock() const { return Monotonic(milliseconds(now_)); }
    Ms fence() const { return policy_.fence.count(); }
    bool cut(int a, int b) const {
        return now_ < healed_at_ &&
               side_[static_cast<std::size_t>(a)] != side_[static_cast<std::size_t>(b)];
    }
    Ms delay() { return now_ < slow_until_ ? pick(1, 300) : pick(1, 8); }
    bool is_frozen(const Agent& agent) const { return now_ < agent.frozen_until; }

    // ---- agents
    void spawn(int machine) {
        const int index = static_cast<int>(agents_.size());
        agents_.push_back({});
        agents_.back().id = "n" + std::to_string(index);
        agents_.back().machine = machine;
        agents_.back().lost_at = now_;
        at(now_ + pick(1, 40), [this, index] { connect(index, 0); });
    }
    Agent& agent(int index) { return agents_[static_cast<std::size_t>(index)]; }
    Coordinator& coordinator(int index) { return coordinators_[static_cast<std::size_t>(index)]; }

    int hosted_on(int machine) const {
        for (std::size_t i = coordinators_.size(); i-- > 0;)
            if (coordinators_[i].alive && coordinators_[i].place == machine)
                return static_cast<int>(i);
        return -1;
    }

    void connect(int index, int attempt) {
        Agent& a = agent(index);
        if (!a.alive || a.link >= 0 || a.told_end) return;
        if (is_frozen(a)) return at(a.frozen_until, [this, index] { connect(index, 0); });
        std::vector<int> places = {0};
        // A running node has a coordinator that may come back; only a fenced one looks elsewhere.
        if (a.running == 0 && now_ >= a.answered + fence()) {
            if (a.newest == 0)
                for (int machine = 1; machine < kMachines; ++machine) places.push_back(machine);
            for (std::size_t k = 0; k < a.successors.size(); ++k) {
                const Ms turn = a.lost_at + fence() + 300 + 400 * static_cast<Ms>(k);
                const int place = a.successors[k].port - 1;
                places.push_back(place);
                if (a.successors[k].id == a.id && !a.copy.empty() && now_ >= turn &&
                    hosted_on(place) < 0 && may_succeed_)
                    succeed(a);
            }
        }
        const int place = places[static_cast<std::size_t>(attempt) % places.size()];
        const int target = hosted_on(place);
        if (target < 0 || cut(place, a.machine))
            return at(now_ + kRetry, [this, index, attempt] { connect(index, attempt + 1); });
        a.link = static_cast<int>(links_.size());
        links_.push_back({index, target, now_, now_});
        a.greeted_at = now_;
        say(index, hello(a));
        if (a.succeeded) say(index, up::Succeeded{a.running});
        if (a.leaving) say(index, up::Leaving{milliseconds(800), "again"});
        const int link = a.link;
        at(now_ + kBeat, [this, index, link] { beat(index, link); });
        at(now_ + 1600, [this, index, link] { give_up_unanswered(index, link, now_); });
    }

    up::Hello hello(const Agent& a) const {
        up::Hello hello;
        hello.facts.id = a.id;
        hello.facts.host = "h" + std::to_string(a.machine);
        hello.facts.address = "10.0.0.1";
        hello.facts.workers = 1 + a.machine % 2;
        hello.facts.successor_port = a.machine + 1;
        hello.running = a.running;
        hello.newest = a.newest;
        hello.newest_nodes = a.newest_nodes;
        hello.master_port = 20000;
        hello.warm = a.machine % 2 == 0;
        return hello;
    }

    void succeed(Agent& a) {
        Policy policy = policy_;
        policy.needs_majority = true;
        ++successions_;
        host(a.machine, Rendezvous::restore(a.copy, policy, clock()));
    }

    void beat(int index, int link) {
        Agent& a = agent(index);
        if (!a.alive || a.link != link) return;
        if (is_frozen(a)) return at(a.frozen_until, [this, index, link] { beat(index, link); });
        say(index, up::Beat{now_});
        at(now_ + kBeat, [this, index, link] { beat(index, link); });
    }

    /// A connection on which nothing is answered for the time of a fence is given up.
    void give_up_unanswered(int index, int link, Ms /*since*/) {
        Agent& a = agent(index);
        if (!a.alive || a.link != link) return;
        if (is_frozen(a))
            return at(a.frozen_until, [this, index, link] { give_up_unanswered(index, link, 0); });
        const Ms due = std::max(a.answered, a.greeted_at) + fence();
        if (now_ < due) return at(due, [this, index, link] { give_up_unanswered(index, link, 0); });
        enforce_fence(index);
        close(index);
        connect(index, 0);
    }

    /// The agent's first thought whenever it runs.
    void enforce_fence(int index) {
        Agent& a = agent(index);
        if (a.running != 0 && now_ >= a.answered + fence() && fences_hold_) {
            const std::int64_t ended = std::exchange(a.running, 0);
            a.succeeded = false;
            say(index, up::Stopped{ended, 20002});
        }
    }
    void arm_fence(int index, std::int64_t generation) {
        const Ms due = std::max(agent(index).answered + fence(), agent(index).frozen_until);
        at(std::max(due, now_ + 1), [this, index, generation] {
            Agent& a = agent(index);
            if (!a.alive || a.running != generation) return;
            if (!is_frozen(a)) enforce_fence(index);
            if (a.running == generation && fences_hold_) arm_fence(index, generation);
        });
    }

    void close(int index) {
        Agent& a = agent(index);
        if (a.link < 0) return;
        const int link = std::exchange(a.link, -1);
        a.lost_at = now_;
        Link& old = links_[static_cast<std::size_t>(link)];
        old.last_up = std::max(old.last_up, now_ + delay());
        at(old.last_up, [this, link] { closed(link); });
    }
    /// When something on a link can arrive; 0: now.
    Ms held_up(Link& link) {
        const bool apart = cut(coordinator(link.coordinator).place, agent(link.agent).machine);
        const Ms until = std::max(apart ? healed_at_ : 0, link.held_up);
        return until > now_ ? link.held_up = until : 0;
    }
    Ms held_down(Link& link) {
        const Agent& a = agent(link.agent);
        const bool apart = cut(coordinator(link.coordinator).place, a.machine);
        const Ms until = std::max({apart ? healed_at_ : 0, a.frozen_until, link.held_down});
        return until > now_ ? link.held_down = until : 0;
    }

    void closed(int number) {
        Link& link = links_[static_cast<std::size_t>(number)];
        Coordinator& c = coordinator(link.coordinator);
        const Agent& a = agent(link.agent);
        if (!c.alive) return;
        if (const Ms later = held_up(link); later > 0)
            return at(later, [this, number] { closed(number); });
        const auto found = c.links.find(a.id);
        if (found == c.links.end() || found->second != number) return;
        c.links.erase(found);
        perform(link.coordinator, c.machine.lose(a.id, clock()));
    }

    void say(int index, Up said) {
        Agent& a = agent(index);
        if (a.link < 0) return;
        Link& link = links_[static_cast<std::size_t>(a.link)];
        const bool twice = now_ < kFaults && chance(2) && !std::holds_alternative<up::Hello>(said);
        const auto message = std::make_shared<const Up>(std::move(said));
        for (int i = 0; i <= (twice ? 1 : 0); ++i) {
            link.last_up = std::max(link.last_up, now_ + delay());
            at(link.last_up, [this, number = a.link, message] { deliver_up(number, message); });
        }
    }
    void deliver_up(int number, const std::shared_ptr<const Up>& message) {
        Link& link = links_[static_cast<std::size_t>(number)];
        Coordinator& c = coordinator(link.coordinator);
        const Agent& a = agent(link.agent);
        if (!c.alive) return;
        if (const Ms later = held_up(link); later > 0)
            return at(later, [this, number, message] { deliver_up(number, message); });
        if (std::holds_alternative<up::Hello>(*message)) {
            c.links[a.id] = number;
            c.known.insert(a.id);
        } else if (const auto found = c.links.find(a.id);
                   found == c.links.end() || found->second != number) {
            return;  // of a connection that was replaced
        }
        perform(link.coordinator, c.machine.receive(a.id, *message, clock()));
    }

    // ---- what agents are told
    void deliver_down(int number, const std::shared_ptr<const Down>& message, int batch) {
        Link& link = links_[static_cast<std::size_t>(number)];
        const int index = link.agent;
        Agent& a = agent(index);
        if (!a.alive || a.link != number) return;
        if (const Ms later = held_down(link); later > 0)
            return at(later,
                      [this, number, message, batch] { deliver_down(number, message, batch); });
        enforce_fence(index);
        if (std::holds_alternative<down::Start>(*message)) a.batch = batch;
        std::visit([this, index](const auto& one) { hear(index, one); }, *message);
    }
    void hear(int index, const down::Welcome&) {
        Agent& a = agent(index);
        a.answered = std::max(a.answered, a.greeted_at);
    }
    void hear(int index, const down::BeatAnswer& answer) {
        agent(index).answered = std::max(agent(index).answered, answer.sequence);
    }
    void hear(int index, const down::Refused&) { agent(index).told_end = true; }
    void hear(int index, const down::Snapshot& snapshot) { agent(index).copy = snapshot.state; }
    void hear(int index, const down::Start& start) {
        Agent& a = agent(index);
        const Assignment& given = start.assignment;
        must(given.generation > a.newest, a.id + " was started twice");
        // A start that not everybody received may stay unknown to a successor, number and all.
        if (--missing_[a.batch] == 0) newest_ = std::max(newest_, given.generation);
        a.newest = given.generation;
        a.newest_nodes = given.group_world_size;
        a.successors = given.successors;
        if (now_ >= a.answered + fence()) return say(index, up::Stopped{a.newest, 20001});
        must(a.running == 0, a.id + " was started while it runs");
        a.running = a.newest;
        a.killing = a.succeeded = false;
        check_alone(a);
        arm_fence(index, a.running);
    }
    void hear(int index, const down::Abort& abort) {
        Agent& a = agent(index);
        if (a.running != abort.generation) return say(index, up::Stopped{abort.generation, 20001});
        if (std::exchange(a.killing, true)) return;
        at(now_ + pick(1, 30),
           [this, index, generation = a.running] { finish_kill(index, generation); });
    }
    void finish_kill(int index, std::int64_t generation) {
        Agent& a = agent(index);
        if (!a.alive || a.newest != generation) return;
        if (is_frozen(a))
            return at(a.frozen_until,
                      [this, index, generation] { finish_kill(index, generation); });
        a.running = 0;
        a.succeeded = false;
        say(index, up::Stopped{generation, static_cast<int>(20000 + pick(0, 999))});
    }
    void hear(int index, const down::CheckpointNow& now) {
        if (chance(30)) return;
        at(now_ + pick(5, 400), [this, index, generation = now.generation] {
            const Agent& a = agent(index);
            if (a.alive && !is_frozen(a) && a.running == generation)
                say(index, up::Checkpointed{generation, "step"});
        });
    }
    void hear(int index, const down::Finish& finish) {
        Agent& a = agent(index);
        a.verdict = finish.verdict;
        a.told_end = true;
        a.running = 0;
        say(index, up::Bye{});
        close(index);
        a.alive = false;
        if (finish.verdict != Verdict::drained || a.leaving) return;
        must(std::all_of(agents_.begin(), agents_.end(),
                         [](const Agent& one) { return !one.alive || one.leaving; }),
             a.id + " was drained without having asked");
    }

    /// Never two generations with running workers.
    void check_alone(const Agent& a) const {
        for (const Agent& other : agents_)
            must(!other.alive || other.running == 0 || other.batch == a.batch ||
                     now_ < other.frozen_until,
                 "generation " + std::to_string(other.running) + " runs on " + other.id + " and " +
                     std::to_string(a.running) + " on " + a.id + " at " + std::to_string(now_));
    }

    // ---- coordinators
    void host(int place, Rendezvous machine) {
        coordinators_.push_back({std::move(machine), place});
        coordinators_.back().disk = coordinators_.back().machine.snapshot();
        schedule(static_cast<int>(coordinators_.size()) - 1);
    }
    void schedule(int index) {
        Coordinator& c = coordinator(index);
        const Deadline next = c.machine.next_deadline();
        if (!c.alive || next.is_never()) return;
        const Ms when = std::max(
            now_, std::chrono::ceil<milliseconds>(next.point().time_since_epoch()).count());
        if (when >= c.tick_at) return;
        c.tick_at = when;
        at(when, [this, index, when] {
            Coordinator& due = coordinator(index);
            if (!due.alive || due.tick_at != when) return;
            due.tick_at = kForever;
            const Deadline deadline = due.machine.next_deadline();
            if (deadline.is_never() || deadline.point() > clock()) return schedule(index);
            Effects effects = due.machine.tick(clock());
            const Deadline after = due.machine.next_deadline();
            must(after.is_never() || after.point() > clock(), "a deadline outlived its tick");
            perform(index, effects);
        });
    }

    void perform(int index, const Effects& effects) {
        Coordinator& c = coordinator(index);
        if (effects.record) {
            const auto copy = std::find_if(
                effects.messages.begin(), effects.messages.end(), [](const Effect& effect) {
                    return std::holds_alternative<down::Snapshot>(effect.message);
                });
            c.disk = copy != effects.messages.end() ? std::get<down::Snapshot>(copy->message).state
                                                    : c.machine.snapshot();
        }
        if (effects.record) {
            check_starts(effects);
            check_budgets(c);
        }
        // A crash between the record and the messages, or amid them.
        const bool crash = armed_crash_ && effects.record && !effects.messages.empty();
        std::size_t left = effects.messages.size();
        if (crash) left = static_cast<std::size_t>(pick(0, static_cast<Ms>(left) - 1));
        for (std::size_t i = 0; i < left; ++i) {
            const Effect& effect = effects.messages[i];
            must(c.known.contains(effect.to), "a message to a stranger");
            const auto found = c.links.find(effect.to);
            if (found == c.links.end()) continue;
            Link& link = links_[static_cast<std::size_t>(found->second)];
            link.last_down = std::max(link.last_down, now_ + delay());
            at(link.last_down, [this, number = found->second,
                                message = std::make_shared<const Down>(effect.message),
                                batch = batch_] { deliver_down(number, message, batch); });
        }
        if (crash) {
            armed_crash_ = false;
            crash_coordinator(index, chance(70));
            return;
        }
        schedule(index);
        if (now_ > kFaults) check_settled();
    }

    void check_starts(const Effects& effects) {
        std::vector<Assignment> batch;
        for (const Effect& effect : effects.messages)
            if (const auto* start = std::get_if<down::Start>(&effect.message))
                batch.push_back(start->assignment);
        if (batch.empty()) return;
        must(batch.front().generation > newest_, "generation " + std::to_string(newest_) +
                                                     " is not the last before " +
                                                     std::to_string(batch.front().generation));
        const std::int64_t generation = batch.front().generation;
        ++batch_;
        missing_[batch_] = static_cast<int>(batch.size());
        int rank = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const Assignment& one = batch[i];
            must(one.generation == generation && one.group_rank == static_cast<int>(i) &&
                     one.group_world_size == static_cast<int>(batch.size()) &&
                     one.first_rank == rank && one.first_role_rank == rank &&
                     one.world_size == batch.front().world_size,
                 "ranks are no permutation");
            rank = i + 1 < batch.size() ? batch[i + 1].first_rank : one.world_size;
            must(rank == one.first_rank + 1 || rank == one.first_rank + 2, "a gap between ranks");
        }
        must(static_cast<int>(batch.size()) >= policy_.min_nodes, "fewer than min_nodes");
    }
    void check_budgets(const Coordinator& c) const {
        for (const auto& [cause, count] : c.machine.view().spent)
            if (cause == Cause::application)
                must(count <= policy_.max_restarts, "more restarts than allowed");
    }

    void crash_coordinator(int index, bool comes_back) {
        Coordinator& c = coordinator(index);
        if (!c.alive) return;
        c.alive = false;
        for (const auto& [id, number] : c.links) {
            at(now_ + delay(), [this, number = number] { dropped(number); });
        }
        c.links.clear();
        if (!comes_back) return;
        at(now_ + pick(20, 900), [this, place = c.place, needs = index > 0, disk = c.disk] {
            if (!may_succeed_ || hosted_on(place) >= 0) return;
            Policy policy = policy_;
            policy.needs_majority = needs;
            host(place, Rendezvous::restore(disk, policy, clock()));
            must(coordinators_.back().machine.snapshot().size() > 0, "no snapshot");
        });
    }
    /// An agent's end of a connection whose coordinator died.
    void dropped(int number) {
        Link& link = links_[static_cast<std::size_t>(number)];
        Agent& a = agent(link.agent);
        if (!a.alive || a.link != number) return;
        if (const Ms later = held_down(link); later > 0)
            return at(later, [this, number] { dropped(number); });
        a.link = -1;
        a.lost_at = now_;
        connect(link.agent, 0);
    }

    // ---- faults
    int some_agent() {
        for (int i = 0; i < 40; ++i) {
            const int index = static_cast<int>(pick(0, static_cast<Ms>(agents_.size()) - 1));
            if (agent(index).alive) return index;
        }
        return 0;
    }
    void kill(int index, bool announced) {
        Agent& a = agent(index);
        if (!a.alive) return;
        a.alive = false;
        a.running = 0;
        if (announced) close(index);
        if (chance(60)) at(now_ + pick(100, 3000), [this, machine = a.machine] { spawn(machine); });
    }
    void fault() {
        const int index = some_agent();
        Agent& a = agent(index);
        switch (pick(0, 13)) {
            case 0:
            case 1:
                kill(index, true);
                break;
            case 2:
                kill(index, false);
                break;  // power: no kernel says goodbye
            case 3:
            case 4:
                a.frozen_until = std::max(a.frozen_until, now_ + pick(200, 3500));
                break;
            case 5:
                for (int& side : side_) side = chance(50) ? 1 : 0;
                healed_at_ = now_ + pick(200, 3500);
                break;
            case 11:
            case 12:
            case 13:  // long enough for the others to choose a coordinator of their own
                side_ = {};
                for (Ms others = pick(0, 4); others > 0; --others)
                    side_[static_cast<std::size_t>(pick(1, kMachines - 1))] = 1;
                side_[0] = 1;
                healed_at_ = now_ + pick(2500, 4500);
                break;
            case 6:
                for (std::size_t i = 0; i < coordinators_.size(); ++i)
                    if (coordinators_[i].alive && chance(70))
                        crash_coordinator(static_cast<int>(i), chance(70));
                break;
            case 7:
                armed_crash_ = true;
                break;
            case 8:
                slow_until_ = now_ + pick(500, 3000);
                break;
            case 9:
                a.leaving = true;
                say(index, up::Leaving{milliseconds(pick(100, 1500)), "spot"});
                break;
            default:
                if (a.running == 0 || a.killing || is_frozen(a)) break;
                say(index, up::Failed{a.running, Cause::application, {}});
        }
    }

    /// Faults end: one coordinator is left to whoever can be reached, and there are nodes enough.
    void calm() {
        may_succeed_ = false;
        armed_crash_ = false;
        healed_at_ = std::min(healed_at_, now_);
        slow_until_ = now_;
        int best = -1;
        for (std::size_t i = 0; i < coordinators_.size(); ++i) {
            if (!coordinators_[i].alive) continue;
            if (best < 0 || rating(coordinators_[i]) > rating(coordinator(best)))
                best = static_cast<int>(i);
        }
        if (best < 0) {
            best = static_cast<int>(coordinators_.size()) - 1;
            for (int i = best; i >= 0; --i)
                if (coordinator(i).machine.generation() > coordinator(best).machine.generation())
                    best = i;
        }
        // It moves to the place where everybody looks.
        for (std::size_t i = 0; i < coordinators_.size(); ++i)
            crash_coordinator(static_cast<int>(i), false);
        Policy policy = policy_;
        policy.needs_majority = best > 0;
        host(0, Rendezvous::restore(coordinator(best).disk, policy, clock()));
        std::set<int> lively;
        for (const Agent& a : agents_)
            if (a.alive) lively.insert(a.machine);
        for (int machine = 0; machine < kMachines; ++machine)
            if (!lively.contains(machine)) spawn(machine);
    }
    static std::pair<int, std::int64_t> rating(const Coordinator& c) {
        const auto view = c.machine.view();
        return {view.phase == Phase::over      ? 2
                : view.phase == Phase::running ? 1
                                               : 0,
                view.generation};
    }

    /// Over, or everybody who can trains: then they all succeed and that must be the end.
    void check_settled() {
        const Coordinator& c = coordinators_.back();
        if (c.machine.phase() != Phase::over &&
            (c.machine.phase() != Phase::running || c.machine.generation() == finishing_))
            return;
        const auto view = c.machine.view();
        if (view.phase == Phase::over) {
            if (view.generation == finishing_) finished_ = true;
            settled_ = true;
            return;
        }
        if (finishing_ == view.generation) return;
        for (const auto& [id, assignment] : view.members) {
            const Agent& a = agent(std::stoi(id.substr(1)));
            if (!a.alive || is_frozen(a) || a.running != view.generation || a.killing) return;
        }
        finishing_ = view.generation;
        for (const auto& [id, assignment] : view.members) {
            const int index = std::stoi(id.substr(1));
            at(now_ + pick(1, 300), [this, index, generation = view.generation] {
                Agent& a = agent(index);
                if (!a.alive || a.running != generation || a.killing) return;
                a.succeeded = true;
                say(index, up::Succeeded{generation});
            });
        }
    }

    std::string describe() {
        const auto view = coordinators_.back().machine.view();
        std::string text(to_string(view.phase));
        text += " generation " + std::to_string(view.generation) + " connected " +
                std::to_string(view.connected);
        for (const Agent& a : agents_)
            if (a.alive)
                text += " " + a.id + (a.link < 0 ? "?" : "") + ":" + std::to_string(a.running);
        return text;
    }

public:
    bool fences_hold_ = true;  ///< false: agents forget their fence, which must be noticed

private:
    std::mt19937_64 random_;
    Policy policy_;
    Ms now_ = 0, healed_at_ = 0, slow_until_ = 0;
    std::uint64_t order_ = 0;
    std::priority_queue<Event> events_;
    std::deque<Agent> agents_;
    std::deque<Coordinator> coordinators_;
    std::deque<Link> links_;
    std::array<int, kMachines> side_{};
    std::int64_t newest_ = 0, finishing_ = 0;
    bool armed_crash_ = false, may_succeed_ = true, settled_ = false, finished_ = false;
    int successions_ = 0, batch_ = 0;
    std::map<int, int> missing_;  ///< by batch: Starts not yet received
};

}  // namespace

TEST_CASE("2000 seeded disasters: one generation at a time, ranks a permutation, no job stuck") {
    const char* only = std::getenv("TY_SEED");
    const std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 1;
    const char* many = std::getenv("TY_SEEDS");
    const std::uint64_t last = only ? first : many ? std::strtoull(many, nullptr, 10) : 2000;
    constexpr std::uint64_t kThreads = 4;
    struct Sum {
        int finished = 0, successions = 0;
        std::vector<std::string> violations;
    };
    std::array<Sum, kThreads> sums;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t part = 0; part < kThreads; ++part)
            threads.emplace_back([&sum = sums[part], seed = first + part, last]() mutable {
                for (; seed <= last; seed += kThreads) {
                    Simulation simulation(seed);
                    try {
                        simulation.run();
                    } catch (const Violation& violation) {
                        sum.violations.push_back("TY_SEED=" + std::to_string(seed) + ": " +
                                                 violation.what());
                    }
                    sum.finished += simulation.finished();
                    sum.successions += simulation.successions();
                }
            });
    }
    int finished = 0, successions = 0;
    for (const Sum& sum : sums) {
        for (const std::string& violation : sum.violations) FAIL_CHECK(violation);
        finished += sum.finished;
        successions += sum.successions;
    }
    if (only || many) return;
    // The faults must neither spare the jobs nor end them all.
    CHECK(finished > 1500);
    CHECK(successions > 150);
    MESSAGE(finished << " finished, " << successions << " successions");
}

TEST_CASE("the simulation notices agents that forget their fence") {
    int noticed = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Simulation simulation(seed);
        simulation.fences_hold_ = false;
        try {
            simulation.run();
        } catch (const Violation&) {
            ++noticed;
        }
    }
    CHECK(noticed > 0);
}
