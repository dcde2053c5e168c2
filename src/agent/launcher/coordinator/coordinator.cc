// SPDX-License-Identifier: Apache-2.0
// The coordinator process: the rendezvous state machine, fed by CoordinatorServer, kept by
// CoordinatorLog. It holds nothing that a restart could not find again, so killing it is harmless.
#include "agent/launcher/coordinator/coordinator_log.h"
#include "agent/launcher/coordinator/coordinator_server.h"
#include "agent/launcher/coordinator/coordinator_start.h"
#include "agent/launcher/link/link.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <set>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr milliseconds kTouchLog{10000};
constexpr milliseconds kLastWords{2000};
/// Longer than any healthy disk takes; a sick one must not stop the job.
constexpr milliseconds kPatienceWithDisk{100};

class Coordinator {
public:
    Coordinator(const CoordinatorStart& start, std::vector<sys::Fd> listeners, MemorySlots memory)
        : writer_(start.log),
          memory_(std::move(memory)),
          machine_(begin(start)),
          server_(std::move(listeners), start.secret, start.host, ids_, clock_,
                  {.on_message = [this](const std::string& node,
                                        const rendezvous::Up& message) { hear(node, message); },
                   .on_lost =
                       [this](const std::string& node, rendezvous::Lost how) {
                           perform(machine_.lose(node, clock_.monotonic(), how));
                       },
                   .on_claim = [this](const ClaimFrame& claim) { return on_claim(claim); }}),
          started_(clock_.monotonic()),
          touched_(started_) {
        server_.watch(writer_.fd());
        if (sequence_ > 0) return;  // restarted: everything is known and kept
        bury(start.dead);
        if (start.abandon_absent) {
            for (const auto& [id, assignment] : machine_.view().members) awaited_.insert(id);
            abandon_at_ = started_ + start.policy.fence + start.policy.fence_margin;
        }
        record();  // makes the file now, so that later records are one append each
    }

    int run() {
        while (!superseded_ && (!machine_.is_done() || !held_.empty())) {
            server_.receive(Deadline::earlier(next_deadline(), server_.next_deadline()));
            writer_.drain();
            const Monotonic now = clock_.monotonic();
            if (abandon_at_ && now >= *abandon_at_) abandon_absent();
            if (machine_.next_deadline().passed()) perform(machine_.tick(now));
            commit();
            if (now - touched_ >= kTouchLog) {
                writer_.touch();
                touched_ = now;
            }
        }
        const Deadline by = Deadline::in(kLastWords);
        while (server_.has_pending() && !by.passed()) {
            server_.receive(Deadline::in(milliseconds(20)));
            server_.flush();
        }
        writer_.finish();
        return 0;
    }

private:
    struct Frame {
        std::string to, text;
        bool waits = true;  ///< for the log
    };

    /// Continue where the last coordinator of this job stopped, or begin.
    rendezvous::Rendezvous begin(const CoordinatorStart& start) {
        rendezvous::Policy policy = start.policy;
        policy.needs_majority = start.needs_majority;
        std::string snapshot = start.snapshot;
        if (const std::optional<LogRecord> record = memory_.load()) {
            sequence_ = record->sequence;
            snapshot = record->snapshot;
        }
        if (snapshot.empty()) return rendezvous::Rendezvous(policy);
        rendezvous::Rendezvous machine =
            rendezvous::Rendezvous::restore(snapshot, policy, clock_.monotonic());
        const rendezvous::Rendezvous::View view = machine.view();
        if (!view.members.empty()) successors_ = view.members.front().second.successors;
        return machine;
    }

    Deadline next_deadline() const {
        Deadline next =
            Deadline::earlier(machine_.next_deadline(), Deadline::at(touched_ + kTouchLog));
        if (abandon_at_) next = Deadline::earlier(next, Deadline::at(*abandon_at_));
        if (!held_.empty()) next = Deadline::earlier(next, Deadline::at(held_until_));
        return next;
    }

    /// Nodes known to be gone, of which the snapshot thinks as members: they come and are lost.
    void bury(const std::vector<DeadNode>& dead) {
        for (const DeadNode& node : dead) {
            rendezvous::up::Hello hello;
            hello.facts = machine_.facts(node.id).value_or(rendezvous::NodeFacts{
                .id = node.id, .slot = {}, .host = node.host, .address = node.host});
            hello.running = machine_.generation();
            const Monotonic now = clock_.monotonic();
            rendezvous::Effects arrival = machine_.receive(node.id, hello, now);
            rendezvous::Effects departure = machine_.lose(node.id, now, rendezvous::Lost::closed);
            arrival.notes.clear();
            perform(std::move(arrival));
            perform(std::move(departure));
        }
    }

    /// All who could coordinate are gone, and whoever else lived has been fenced or has come here.
    void abandon_absent() {
        abandon_at_.reset();
        std::vector<DeadNode> dead;
        for (const std::string& id : awaited_) dead.push_back({.id = id, .host = id});
        awaited_.clear();
        bury(dead);
    }

    /// Behind: the job has gone on without us, and our agent will take us there.
    std::optional<std::int64_t> on_claim(const ClaimFrame& claim) {
        if (claim.generation <= machine_.generation()) return machine_.generation();
        if (!superseded_) say({"superseded", {{"by", claim.address}}});
        superseded_ = true;
        return std::nullopt;
    }

    void hear(const std::string& node, const rendezvous::Up& message) {
        const Monotonic now = clock_.monotonic();
        if (const auto* hello = std::get_if<rendezvous::up::Hello>(&message)) {
            awaited_.erase(node);
            perform(machine_.receive(node, *hello, now));
            for (const auto& successor : successors_) {
                if (successor.id == node)
                    behind_.push_back(node);  // it may have missed the last one
            }
            return;
        }
        perform(machine_.receive(node, message, now));
    }

    /// Nothing goes out before commit(): one record serves everything that one round has brought.
    void perform(rendezvous::Effects effects) {
        record_wanted_ |= effects.record;
        if (effects.record) fresh_.clear();
        for (rendezvous::Effect& effect : effects.messages) {
            if (const auto* order = std::get_if<rendezvous::down::Start>(&effect.message)) {
                successors_ = order->assignment.successors;
            }
            if (const auto* copy = std::get_if<rendezvous::down::Snapshot>(&effect.message)) {
                if (effects.record) fresh_ = copy->state;
            }
            outgoing_.push_back(std::move(effect));
        }
        for (const rendezvous::Effects::Note& note : effects.notes) say(note);
    }

    void commit() {
        if (record_wanted_) {
            record();
            held_until_ = clock_.monotonic() + kPatienceWithDisk;
            awaits_ = sequence_;
        }
        std::vector<Frame> frames;
        frames.reserve(outgoing_.size());
        for (const rendezvous::Effect& effect : outgoing_) {  // while the disk writes
            if (effect.to.empty()) continue;
            // Answers to beats keep workers alive; they wait for no disk.
            const bool waits =
                !std::holds_alternative<rendezvous::down::BeatAnswer>(effect.message);
            frames.push_back({effect.to, rendezvous::encode(effect.message), waits});
        }
        outgoing_.clear();
        const bool kept = writer_.done() >= awaits_ || clock_.monotonic() >= held_until_;
        if (kept) release();
        for (Frame& frame : frames) {
            if (kept || !frame.waits) {
                server_.send(frame.to, frame.text);
            } else {
                held_.push_back(std::move(frame));
            }
        }
        if (!behind_.empty()) {
            const std::string frame = rendezvous::encode(
                rendezvous::Down(rendezvous::down::Snapshot{machine_.snapshot()}));
            for (const std::string& node : behind_) server_.send(node, frame);
            behind_.clear();
        }
        server_.flush();
    }

    void release() {
        for (const Frame& frame : held_) server_.send(frame.to, frame.text);
        held_.clear();
    }

    void record() {
        record_wanted_ = false;
        // The machine has just made it for the successors, if there are any.
        std::string snapshot = fresh_.empty() ? machine_.snapshot() : std::exchange(fresh_, {});
        ++sequence_;
        memory_.store(sequence_, snapshot);
        writer_.submit(sequence_, std::move(snapshot));
    }

    /// The hosting agent reads our standard output; when it is slow, notes are lost, not time.
    static void say(const rendezvous::Effects::Note& note) {
        Json fields = Json::array();
        for (const auto& [key, value] : note.fields) fields.push_back({key, value});
        const std::string line = dump_json(Json{{"what", note.what}, {"fields", fields}}) + "\n";
        [[maybe_unused]] const ssize_t put = ::write(STDOUT_FILENO, line.data(), line.size());
    }

    SystemClock clock_;
    SystemIds ids_;
    LogWriter writer_;
    MemorySlots memory_;
    std::int64_t sequence_ = 0;
    std::vector<rendezvous::Assignment::Successor> successors_;
    rendezvous::Rendezvous machine_;
    CoordinatorServer server_;
    std::vector<rendezvous::Effect> outgoing_;
    std::vector<std::string> behind_;  ///< successors without the newest snapshot
    bool record_wanted_ = false, superseded_ = false;
    std::string fresh_;        ///< newest snapshot, if it need not be made
    std::vector<Frame> held_;  ///< until the log has `awaits_`, or held_until_
    std::int64_t awaits_ = 0;
    Monotonic held_until_;
    std::set<std::string> awaited_;  ///< members of the restored generation not seen yet
    std::optional<Monotonic> abandon_at_;
    Monotonic started_, touched_;
};

std::string read_to_end(int fd) {
    std::string text;
    char buffer[16384];
    for (off_t at = 0;; at = static_cast<off_t>(text.size())) {
        const ssize_t got = ::pread(fd, buffer, sizeof buffer, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno("read the start document");
        if (got == 0) return text;
        text.append(buffer, static_cast<std::size_t>(got));
    }
}

/// Signals meant for the job go to the agent, which tells us what follows from them; we end with
/// it.
void settle_in(long parent) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) {
        ::signal(number, SIG_IGN);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent != 0 && ::getppid() != parent) ::_exit(1);  // it died before the line above
    ::prctl(PR_SET_NAME, "ty-coordinator");
    rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
    ::fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
}

sys::Fd inherited(int number) {
    ::fcntl(number, F_SETFD, FD_CLOEXEC);
    return sys::Fd(number);
}

}  // namespace

std::string encode(const CoordinatorStart& start) {
    // The policy travels as it does in a Hello: one codec for both.
    const rendezvous::up::Hello hello{.facts = {.id = "coordinator"}, .policy = start.policy};
    Json dead = Json::array();
    for (const DeadNode& node : start.dead) dead.push_back({node.id, node.host});
    return dump_json(Json{{"hello", rendezvous::encode(rendezvous::Up(hello))},
                          {"run_id", start.secret.run_id},
                          {"token", start.secret.token},
                          {"log", start.log},
                          {"snapshot", start.snapshot},
                          {"needs_majority", start.needs_majority},
                          {"two_listeners", start.two_listeners},
                          {"host", start.host},
                          {"dead", dead},
                          {"abandon_absent", start.abandon_absent},
                          {"parent", start.parent}});
}

CoordinatorStart decode_start(std::string_view text) {
    try {
        const Json document = parse_json(text);
        const rendezvous::Up hello = rendezvous::decode_up(document.at("hello").get<std::string>());
        CoordinatorStart start{.policy = std::get<rendezvous::up::Hello>(hello).policy.value(),
                               .secret = {.run_id = document.at("run_id").get<std::string>(),
                                          .token = document.at("token").get<std::string>()},
                               .log = document.at("log").get<std::string>(),
                               .snapshot = document.at("snapshot").get<std::string>(),
                               .needs_majority = document.at("needs_majority").get<bool>(),
                               .two_listeners = document.at("two_listeners").get<bool>(),
                               .host = document.at("host").get<std::string>(),
                               .abandon_absent = document.at("abandon_absent").get<bool>(),
                               .parent = document.at("parent").get<long>()};
        for (const Json& node : document.at("dead")) {
            start.dead.push_back({node.at(0).get<std::string>(), node.at(1).get<std::string>()});
        }
        return start;
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw_error(Code::invalid, "", "the coordinator's start document: {}", error.what());
    }
}

int coordinator_main() {
    const sys::Fd document(kStartFd);
    const CoordinatorStart start = decode_start(read_to_end(document.get()));
    settle_in(start.parent);
    std::vector<sys::Fd> listeners;
    listeners.push_back(inherited(kListenerFd));
    if (start.two_listeners) listeners.push_back(inherited(kOldPlaceFd));
    MemorySlots memory(inherited(kMemoryFd), inherited(kMemoryFd + 1));
    Coordinator coordinator(start, std::move(listeners), std::move(memory));
    return coordinator.run();
}

}  // namespace ty::agent
