// SPDX-License-Identifier: Apache-2.0
// A coordinator that belongs to no node: it outlives them all and waits for others.
#include "rendezvous/testing.h"

namespace ty::rendezvous {

using namespace testing;

namespace {

Policy standing(int min_nodes, int max_nodes, int max_restarts = 0) {
    Policy policy = policy_of(min_nodes, max_nodes, max_restarts);
    policy.standing = true;
    return policy;
}

constexpr seconds kLong{100000};

}  // namespace

TEST_CASE("a standing job waits for its nodes without end") {
    Job job(standing(2, 4));
    CHECK(job.machine.next_deadline().is_never());
    job.join("a");
    job.pass(kLong / 100);
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("b");
    job.pass(seconds(3));
    CHECK(job.members() == Ids{"a", "b"});
}

TEST_CASE("a standing job starts at once when everybody who was sent is there") {
    Policy policy = standing(1, 4);
    policy.expected_nodes = 2;
    Job job(policy);
    job.join("a");
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("b");
    CHECK(job.machine.phase() == Phase::running);
}

TEST_CASE("a standing job that has lost every node goes on with those that come later") {
    Policy policy = standing(1, 4);
    policy.last_call = seconds(60);  // for the first generation only
    policy.expected_nodes = 2;
    Job job = running_job(policy, {"a", "b"});
    job.lose("a");
    job.lose("b");
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(seconds(1000));
    job.join("c");
    job.pass(seconds(1));
    CHECK(job.members() == Ids{"c"});
    CHECK(job.machine.generation() == 2);
}

TEST_CASE("nodes that have all left a standing job are told so, and the job stays") {
    Job job = running_job(standing(1, 2), {"a", "b"});
    for (const char* id : {"a", "b"}) job.say(id, up::Leaving{seconds(10), "notice"});
    job.say("a", up::Checkpointed{1, "step 3"});
    job.stop_all({"a", "b"});
    for (const char* id : {"a", "b"}) {
        CHECK(job.finish_of(id).verdict == Verdict::drained);
        job.say(id, up::Bye{});
        job.lose(id);
    }
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(seconds(1000));
    job.join("c");
    job.join("d");
    CHECK(job.members() == Ids{"c", "d"});
}

TEST_CASE("without restarts a standing job still waits for a replacement") {
    Job job = running_job(standing(2, 2), {"a", "b"});
    job.lose("b");
    job.stopped("a");
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("c");
    CHECK(job.members() == Ids{"a", "c"});
}

TEST_CASE("one silent node after the other takes no majority from a standing job") {
    Job job = running_job(standing(1, 3), {"a", "b", "c"});
    job.mute("b");
    job.mute("c");
    job.pass(seconds(1) + milliseconds(500));
    job.stopped("a");
    job.pass(seconds(1));
    CHECK(job.members() == Ids{"a"});
}

TEST_CASE("a standing job waits for a node that takes its time to stop") {
    Job job = running_job(standing(1, 2), {"a", "b"});
    job.fail("a", Cause::infrastructure, FailureKind::not_ready);
    job.stopped("a");
    job.pass(seconds(1000));
    CHECK(job.machine.phase() == Phase::stopping);
    job.stopped("b");
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.machine.generation() == 2);
}

TEST_CASE("a standing job that is over tells it to whoever comes, for as long as it lives") {
    Job job = running_job(standing(1, 1), {"a"});
    job.say("a", up::Succeeded{1});
    job.say("a", up::Bye{});
    job.lose("a");
    job.pass(seconds(1000));
    CHECK_FALSE(job.machine.is_done());
    CHECK(job.machine.next_deadline().is_never());
    job.join("late");
    CHECK(job.finish_of("late").verdict == Verdict::succeeded);
    const std::string snapshot = job.machine.snapshot();
    Job again(Rendezvous::restore(snapshot, standing(1, 1), job.at()), job.elapsed());
    again.pass(seconds(10));
    CHECK_FALSE(again.machine.is_done());
    again.join("later");
    CHECK(again.finish_of("later").verdict == Verdict::succeeded);
}

}  // namespace ty::rendezvous
