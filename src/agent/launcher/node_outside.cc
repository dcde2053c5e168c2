// SPDX-License-Identifier: Apache-2.0
// A node of an elastic job and the agent outside its box: asked before workers start, told when
// they are gone, obeyed when the machine has to go.
#include "agent/launcher/node_agent.h"

#include "base/error.h"
#include "base/format.h"

namespace ty::agent {

namespace {

using namespace rendezvous;

/// Uploads and downloads of a checkpoint happen meanwhile; who has died is noticed otherwise.
constexpr milliseconds kPatience{std::chrono::hours(1)};
/// In a row: then this node is of no use to the job.
constexpr int kMostFailedPreparations = 3;

}  // namespace

void NodeAgent::open_node_socket() {
    if (options_.node_socket.empty()) return;
    outside_ = std::make_unique<NodeSocket>(
        poller_, options_.node_socket, kPatience,
        NodeSocket::Events{.on_leave = [this](milliseconds within,
                                              const std::string& why) { leave(within, why, 0); },
                           .on_gone = [this](const std::string& why) { on_agent_gone(why); }});
}

/// No worker of this generation runs yet; the coordinator may change its mind meanwhile.
void NodeAgent::prepare() {
    preparing_ = true;
    update_health("preparing");
    const std::int64_t generation = assignment_->generation;
    outside_->ask(format("starting {} {} {}", generation, assignment_->group_world_size,
                         assignment_->group_rank),
                  [this, generation](const std::optional<std::string>& failure) {
                      if (!preparing_ || assignment_->generation != generation) return;
                      on_prepared(failure);
                  });
}

void NodeAgent::on_prepared(const std::optional<std::string>& failure) {
    if (!failure) {
        failed_preparations_ = 0;
        if (leaving_) return;  // the end of this generation is on its way
        preparing_ = false;
        return launch();
    }
    Failure reported;
    reported.kind = FailureKind::not_ready;
    reported.host = facts_.host;
    reported.message = *failure;
    note("worker_failed",
         {{"kind", std::string(to_string(reported.kind))}, {"why", sentence(reported)}});
    if (++failed_preparations_ >= kMostFailedPreparations) {
        finish({.verdict = Verdict::failed,
                .cause = Cause::infrastructure,
                .why = sentence(reported),
                .root = reported});
        return;
    }
    reported_ = true;
    link_->send(up::Failed{assignment_->generation, Cause::infrastructure, reported});
    workers_stopped();
}

/// The workers are gone: what they have saved must be safe before anybody goes on.
void NodeAgent::settle() {
    settling_ = true;
    update_health("settling");
    const std::int64_t generation = assignment_->generation;
    outside_->ask(format("stopped {}", generation),
                  [this, generation](const std::optional<std::string>& failure) {
                      if (!settling_ || assignment_->generation != generation) return;
                      if (failure) {
                          sys::write_all(2, format("trainyard run: what generation {} saved last "
                                                   "may be lost: {}\n",
                                                   generation, *failure));
                      }
                      end_generation();
                  });
}

void NodeAgent::say_ended(std::string_view cause) {
    if (!ran_ || said_ended_ || !assignment_) return;
    said_ended_ = true;
    if (outside_) outside_->tell(format("ended {} {}", assignment_->generation, cause));
}

/// Nobody keeps this node's checkpoints any more, or its promises.
void NodeAgent::on_agent_gone(const std::string& why) {
    const std::string sentence = format("the agent of this node is gone: {}", why);
    note("agent_gone", {{"why", why}});
    if (!finish_) {
        finish_ = down::Finish{.verdict = Verdict::failed,
                               .cause = Cause::infrastructure,
                               .why = sentence,
                               .root = {}};
    }
    if (settling_) return end_generation();
    if (assignment_) {
        stop_workers({});
    } else {
        conclude();
    }
}

}  // namespace ty::agent
