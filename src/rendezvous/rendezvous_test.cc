// SPDX-License-Identifier: Apache-2.0
// The rules of forming and ending generations, one case each; departures, growth and restarts of
// the coordinator are in resizing_test.cc, sequences of faults in simulation_test.cc.
#include "rendezvous/rendezvous.h"

#include "rendezvous/testing.h"

#include <chrono>

using namespace ty;
using namespace ty::rendezvous;
using namespace ty::rendezvous::testing;

// ---- gathering
// -----------------------------------------------------------------------------------

TEST_CASE("a job starts at once when max_nodes are there, rank 0 first") {
    Job job(policy_of(1, 3));
    job.join("b");
    job.join("c");
    CHECK(job.machine.phase() == Phase::gathering);
    job.forget();
    job.join("a");
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.machine.generation() == 1);
    CHECK(job.recorded);
    CHECK(job.members() == Ids{"a", "b", "c"});
    REQUIRE(job.count<down::Start>() == 3);
    CHECK(std::holds_alternative<down::Welcome>(job.sent.at(0).message));
    CHECK(std::holds_alternative<down::Start>(job.sent.at(1).message));
    CHECK(job.sent.at(1).to == "a");
    const Assignment c = job.told<down::Start>("c").at(0).assignment;
    CHECK(c.group_rank == 2);
    CHECK(c.first_rank == 4);
    CHECK(c.world_size == 6);
    CHECK(c.restart_count == 0);
    CHECK(c.master_address == "10.0.0.97");
    CHECK(c.master_port == 20000 + 'a');
    REQUIRE(c.successors.size() == 3);
    CHECK(c.successors.at(0).id == "a");
    CHECK(job.told<down::Snapshot>("b").size() == 1);
}

TEST_CASE("role ranks count within equal roles; nodes that cannot coordinate are no successors") {
    Job job(policy_of(3, 3));
    for (const char* id : {"a", "b", "c"}) {
        up::Hello hello = job.hello_of(id);
        hello.facts.workers = *id == 'b' ? 3 : 2;
        hello.facts.role = *id == 'b' ? "reader" : "trainer";
        if (*id == 'a') hello.facts.successor_port = 0;
        job.hello(id, hello);
    }
    const Assignment b = job.told<down::Start>("b").at(0).assignment;
    const Assignment c = job.told<down::Start>("c").at(0).assignment;
    CHECK(b.first_role_rank == 0);
    CHECK(b.role_world_size == 3);
    CHECK(c.first_rank == 5);
    CHECK(c.first_role_rank == 2);
    CHECK(c.role_world_size == 4);
    REQUIRE(c.successors.size() == 2);
    CHECK(c.successors.at(0).id == "b");
}

TEST_CASE("expected nodes start a job at once") {
    Policy policy = policy_of(1, 8);
    policy.expected_nodes = 2;
    Job job(policy);
    job.join("a");
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("b");
    CHECK(job.machine.phase() == Phase::running);
}

TEST_CASE("the last call counts from reaching min_nodes and is not extended") {
    Job job(policy_of(2, 4));
    job.join("a");
    job.pass(seconds(5));
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("b");
    job.pass(milliseconds(1900));
    job.join("c");
    job.pass(milliseconds(90));
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(10));
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.members().size() == 3);
}

TEST_CASE("below min_nodes the job fails after join_timeout and says how many came") {
    Policy policy = policy_of(3, 4);
    policy.join_timeout = seconds(60);
    Job job(policy);
    job.join("a");
    job.join("b");
    job.pass(milliseconds(59999));
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(1));
    CHECK(job.machine.phase() == Phase::over);
    const down::Finish finish = job.finish_of("a");
    CHECK(finish.verdict == Verdict::failed);
    CHECK(finish.cause == Cause::infrastructure);
    CHECK(finish.why == "only 2 of at least 3 nodes (at most 4) came within 60 s");
}

TEST_CASE("nodes beyond max_nodes are spares and fill holes") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    job.join("d");
    job.pass(seconds(60));
    CHECK(job.machine.generation() == 1);
    job.lose("b");
    job.stop_all({"a", "c"});
    CHECK(job.machine.generation() == 2);
    CHECK(job.members() == Ids{"a", "d", "c"});
}

TEST_CASE("a node of another job is refused with both values") {
    Job job(policy_of(2, 4));
    up::Hello hello = job.hello_of("a");
    hello.policy = policy_of(2, 5);
    job.hello("a", hello);
    REQUIRE(job.told<down::Refused>("a").size() == 1);
    CHECK(job.told<down::Refused>("a").at(0).why ==
          "this node was started for 2:5 nodes, the job here is for 2:4");
    hello.policy = policy_of(2, 4);
    hello.policy->run_id = "other";
    job.hello("a", hello);
    CHECK(job.told<down::Refused>("a").at(1).why ==
          "this node belongs to run \"other\", the job here is \"job\"");
    CHECK(job.machine.view().connected == 0);
}

TEST_CASE("unknown nodes may only say hello") {
    Job job(policy_of(1, 2));
    job.say("x", up::Beat{1});
    job.say("x", up::Failed{});
    CHECK(job.sent.empty());
    CHECK(job.noted("ignored"));
}

// ---- failures and budgets
// ------------------------------------------------------------------------

TEST_CASE("a failure aborts every member gracefully and the next generation keeps the ranks") {
    Job job = running_job(policy_of(2, 4, 3), {"a", "b", "c"});
    job.fail("b");
    CHECK(job.machine.phase() == Phase::stopping);
    CHECK(job.recorded);
    for (const char* id : {"a", "b", "c"}) {
        REQUIRE(job.told<down::Abort>(id).size() == 1);
        CHECK(job.told<down::Abort>(id).at(0).graceful);
    }
    job.stop_all({"a", "b"});
    CHECK(job.machine.phase() == Phase::stopping);
    job.stopped("c");
    CHECK(job.machine.phase() == Phase::running);  // no last call, though a fourth could come
    CHECK(job.machine.generation() == 2);
    CHECK(job.members() == Ids{"a", "b", "c"});
    const Assignment a = job.told<down::Start>("a").at(0).assignment;
    CHECK(a.restart_count == 1);
    CHECK(a.master_port == 30000);
    CHECK(job.machine.view().spent.at(Cause::application) == 1);
}

TEST_CASE("without budget the job fails with the root cause in one sentence") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.fail("a");
    restart(job);
    job.fail("b", Cause::application, FailureKind::exit_code, true);  // an echo
    job.fail("a", Cause::application, FailureKind::out_of_memory);
    job.stop_all({"a", "b"});
    CHECK(job.machine.phase() == Phase::over);
    const down::Finish finish = job.finish_of("b");
    CHECK(finish.verdict == Verdict::failed);
    REQUIRE(finish.root);
    CHECK(finish.root->kind == FailureKind::out_of_memory);
    CHECK(finish.root->host == "host-a");
    CHECK(finish.why == sentence(*finish.root));
    CHECK(job.machine.view().spent.at(Cause::application) == 1);
}

TEST_CASE("a program that cannot be executed ends the job, restarts or not") {
    Job job = running_job(policy_of(2, 2, 5), {"a", "b"});
    job.fail("a", Cause::application, FailureKind::not_started);
    job.stop_all({"a", "b"});
    CHECK(job.machine.phase() == Phase::over);
    CHECK(job.finish_of("b").verdict == Verdict::failed);
}

TEST_CASE("the nodes are told whose failure ends the generation") {
    Job job = running_job(policy_of(2, 2, 5), {"a", "b"});
    job.fail("a");
    REQUIRE(job.told<down::Abort>("b").size() == 1);
    CHECK(job.told<down::Abort>("b").at(0).why ==
          "rank 0 (local rank 0 on host-a) exited with code 1: from a");
}

TEST_CASE("causes have budgets of their own; hang is as application unless given") {
    Policy policy = policy_of(1, 1, 1);
    policy.budgets[Cause::infrastructure] = 2;
    Job job = running_job(policy, {"a"});
    job.fail("a", Cause::application);
    restart(job);
    job.fail("a", Cause::hang, FailureKind::hang);
    restart(job);
    job.fail("a", Cause::infrastructure, FailureKind::disk_full);
    restart(job);
    job.fail("a", Cause::infrastructure, FailureKind::disk_full);
    restart(job);
    CHECK(job.machine.generation() == 5);
    job.fail("a", Cause::hang, FailureKind::hang);
    restart(job);
    CHECK(job.machine.phase() == Phase::over);
    CHECK(job.finish_of("a").cause == Cause::hang);
}

TEST_CASE("a port in use costs no budget, five times in a row") {
    Job job = running_job(policy_of(1, 1, 0), {"a"});
    for (int i = 0; i < 5; ++i) {
        job.fail("a", Cause::infrastructure, FailureKind::port_in_use);
        restart(job);
    }
    CHECK(job.machine.generation() == 6);
    job.fail("a", Cause::infrastructure, FailureKind::port_in_use);
    restart(job);
    CHECK(job.machine.phase() == Phase::over);
}

TEST_CASE("torchrun's counting: one count for failures of workers, membership is free") {
    Policy policy = policy_of(1, 2, 2);
    policy.counting = Counting::torchrun;
    Job job = running_job(policy, {"a", "b"});
    job.lose("b");
    restart(job);
    CHECK(job.told<down::Start>("a").back().assignment.restart_count == 0);
    job.fail("a");
    restart(job);
    job.fail("a", Cause::hang, FailureKind::hang);
    restart(job);
    CHECK(job.told<down::Start>("a").back().assignment.restart_count == 2);
    CHECK(job.machine.generation() == 4);
    job.fail("a");
    restart(job);
    CHECK(job.machine.phase() == Phase::over);
}

TEST_CASE("failures of earlier generations and of strangers are ignored") {
    Job job = running_job(policy_of(1, 1, 3), {"a"});
    job.fail("a");
    restart(job);
    job.join("z");
    job.say("a", up::Failed{1, Cause::application, {}});
    job.say("z", up::Failed{2, Cause::application, {}});
    job.say("a", up::Stopped{1, 1});
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.noted("late_failure"));
}

// ---- success
// -------------------------------------------------------------------------------------

TEST_CASE(
    "the job has succeeded when all members have; one that left after succeeding is no loss") {
    Job job = running_job(policy_of(2, 3), {"a", "b", "c"});
    job.say("a", up::Succeeded{1});
    job.lose("a");
    job.say("b", up::Succeeded{1});
    job.say("b", up::Bye{});
    CHECK(job.machine.phase() == Phase::running);
    job.say("c", up::Succeeded{1});
    CHECK(job.machine.phase() == Phase::over);
    CHECK(job.finish_of("c").verdict == Verdict::succeeded);
    CHECK_FALSE(job.machine.is_done());
    job.say("c", up::Bye{});
    CHECK(job.machine.is_done());
    CHECK(job.machine.next_deadline().is_never());
}

TEST_CASE("after the end newcomers hear how it ended, members hear it again, and 3 s are enough") {
    Job job = running_job(policy_of(1, 1), {"a"});
    job.say("a", up::Succeeded{1});
    job.join("z");
    CHECK(job.finish_of("z").why == "the job has ended: every worker has succeeded");
    CHECK(job.finish_of("z").verdict == Verdict::succeeded);
    job.join("a", 1);
    CHECK(job.told<down::Finish>("a").size() == 2);
    CHECK_FALSE(job.machine.is_done());
    job.pass(seconds(3));
    CHECK(job.machine.is_done());
}

// ---- lost and silent nodes
// -----------------------------------------------------------------------

TEST_CASE("a closed connection ends the generation at once and survivors go on without waiting") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    job.lose("a");
    CHECK(job.machine.phase() == Phase::stopping);
    CHECK(job.told<down::Abort>("b").at(0).cause == Cause::infrastructure);
    CHECK_FALSE(job.told<down::Abort>("b").at(0).graceful);
    CHECK(job.told<down::Abort>("b").at(0).why == "node host-a was lost (its connection closed)");
    job.stop_all({"b", "c"});
    CHECK(job.machine.generation() == 2);
    CHECK(job.members() == Ids{"b", "c"});
}

TEST_CASE("below min_nodes: no restarts, no waiting") {
    Job job = running_job(policy_of(2, 2, 0), {"a", "b"});
    job.lose("b");
    CHECK(job.machine.phase() == Phase::over);
    CHECK(job.finish_of("a").why == "node host-b was lost (its connection closed)");
    CHECK(job.finish_of("a").cause == Cause::infrastructure);
}

TEST_CASE("below min_nodes with restarts: a replacement is waited for and takes the hole") {
    Job job = running_job(policy_of(3, 3, 1), {"a", "b", "c"});
    job.lose("b");
    job.stop_all({"a", "c"});
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(seconds(100));
    job.join("d");
    CHECK(job.members() == Ids{"a", "d", "c"});
}

TEST_CASE("below min_nodes the replacement must come within join_timeout") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.lose("b");
    job.stopped("a");
    job.pass(job.elapsed() + seconds(600));
    CHECK(job.machine.phase() == Phase::over);
}

TEST_CASE("a silent node is suspected after the lease and waited for until it must be fenced") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    job.mute("c");
    job.pass(milliseconds(1249));
    CHECK(job.machine.phase() == Phase::running);
    job.pass(milliseconds(1));
    CHECK(job.machine.phase() == Phase::stopping);
    CHECK(job.told<down::Abort>("a").at(0).why == "node host-c fell silent (its lease ran out)");
    job.stop_all({"a", "b"});
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(499));
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(1));
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.members() == Ids{"a", "b"});
}

TEST_CASE("a silent node that says its workers are gone is a member again at once") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    job.mute("c");
    job.pass(milliseconds(1250));
    job.stop_all({"a", "b"});
    SUBCASE("on the old connection") {
        job.stopped("c");
    }
    SUBCASE("on a new one") {
        job.join("c", 0);
    }
    CHECK(job.machine.phase() == Phase::running);
    CHECK(job.members() == Ids{"a", "b", "c"});
}

TEST_CASE("a fenced node that thaws is no newcomer before it has stopped") {
    Policy policy = policy_of(2, 3, 1);
    policy.resize_debounce = milliseconds(0);
    Job job = running_job(policy, {"a", "b", "c"});
    job.mute("c");
    job.pass(milliseconds(1250));
    job.stop_all({"a", "b"});
    job.pass(milliseconds(500));
    REQUIRE(job.machine.generation() == 2);
    job.say("c", up::Beat{9});
    job.say("c", up::Warm{});
    CHECK(job.machine.phase() == Phase::running);
    job.say("c", up::Stopped{1, 30001});
    CHECK(job.machine.phase() == Phase::stopping);  // it grows
}

TEST_CASE("with restarts forbidden a silent node has until its fence to come back") {
    Job job = running_job(policy_of(2, 2, 0), {"a", "b"});
    job.mute("b");
    job.pass(milliseconds(1250));
    job.stopped("a");
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(500));
    CHECK(job.machine.phase() == Phase::over);
    CHECK(job.finish_of("a").root->kind == FailureKind::node_silent);
}

TEST_CASE("any message renews the lease, and a reconnect is not a join") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.mute("b");
    job.pass(milliseconds(1200));
    job.join("b", 1);
    job.mute("b");
    job.pass(milliseconds(1200));
    CHECK(job.machine.phase() == Phase::running);
    CHECK_FALSE(job.noted("joined"));
    CHECK(job.count<down::Abort>() == 0);
}

TEST_CASE("a node that reconnects with another generation is told to abort it") {
    Job job = running_job(policy_of(1, 2, 3), {"a", "b"});
    job.fail("a");
    job.stop_all({"a", "b"});
    job.join("z", 1);
    REQUIRE(job.told<down::Abort>("z").size() == 1);
    CHECK(job.told<down::Abort>("z").at(0).generation == 1);
}

TEST_CASE("a connection given up by the coordinator is no death") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.lose("b", Lost::silent);
    CHECK(job.machine.phase() == Phase::running);
    job.join("b", 1);
    job.pass(seconds(5));
    CHECK(job.machine.phase() == Phase::running);
    job.lose("b", Lost::silent);
    job.pass(milliseconds(1250));
    CHECK(job.machine.phase() == Phase::stopping);
}

TEST_CASE("a member that comes back without workers or words ends the generation") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.join("b", 0);
    SUBCASE("unless it explains itself") {
        job.say("b", up::Succeeded{1});
        job.say("a", up::Succeeded{1});
        CHECK(job.machine.phase() == Phase::over);
    }
    SUBCASE("after a lease") {
        job.pass(milliseconds(1250));
        CHECK(job.machine.phase() == Phase::stopping);
        job.stopped("a");
        CHECK(job.machine.generation() == 2);
    }
}

TEST_CASE("a generation needs most of the last one's nodes that are not known dead") {
    Policy policy = policy_of(1, 4, 1);
    policy.join_timeout = seconds(30);
    Job job = running_job(policy, {"a", "b", "c", "d"});
    SUBCASE("one of four silent ones is too few") {
        for (const char* id : {"b", "c", "d"}) job.mute(id);
        job.pass(milliseconds(1250));
        job.stopped("a");
        job.pass(seconds(10));
        CHECK(job.machine.phase() == Phase::gathering);
        CHECK(job.noted("no_majority"));
        job.pass(seconds(21));
        CHECK(job.machine.phase() == Phase::over);
    }
    SUBCASE("one of four closed ones goes on") {
        for (const char* id : {"b", "c", "d"}) job.lose(id);
        job.stopped("a");
        CHECK(job.machine.generation() == 2);
    }
    SUBCASE("half is enough for the first coordinator") {
        for (const char* id : {"c", "d"}) job.mute(id);
        job.pass(milliseconds(1250));
        job.stop_all({"a", "b"});
        job.pass(milliseconds(500));
        CHECK(job.machine.generation() == 2);
    }
    SUBCASE("a connection that closes after silence proves nothing") {
        for (const char* id : {"b", "c", "d"}) job.mute(id);
        job.pass(milliseconds(1250));
        job.stopped("a");
        SUBCASE("straight") {}
        SUBCASE("behind old messages") {
            for (const char* id : {"b", "c", "d"}) job.say(id, up::Beat{1});
        }
        for (const char* id : {"b", "c", "d"}) job.lose(id);
        job.pass(seconds(10));
        CHECK(job.machine.generation() == 1);
    }
}

TEST_CASE("half is not enough for a successor") {
    Job job = running_job(policy_of(1, 4, 1), {"a", "b", "c", "d"});
    Policy policy = policy_of(1, 4, 1);
    policy.needs_majority = true;
    Job next(Rendezvous::restore(job.machine.snapshot(), policy, job.at()), job.elapsed());
    next.join("c", 0);
    next.join("d", 0);
    next.pass(seconds(10));
    CHECK(next.machine.phase() == Phase::gathering);
    next.join("b", 0);
    // Another coordinator may have counted b a moment ago: what it started must have ended.
    next.pass(milliseconds(2999));
    CHECK(next.machine.phase() == Phase::gathering);
    next.pass(milliseconds(1));
    CHECK(next.machine.generation() == 2);
    CHECK(next.members() == Ids{"b", "c", "d"});
}

TEST_CASE("a successor whose record is older asks for most of the newer generation") {
    Job job = running_job(policy_of(1, 4, 1), {"a", "b", "c", "d"});
    Policy policy = policy_of(1, 4, 1);
    policy.needs_majority = true;
    Job next(Rendezvous::restore(job.machine.snapshot(), policy, job.at()), job.elapsed());
    const auto returning = [&next](const char* id, std::int64_t newest) {
        up::Hello hello = next.hello_of(id);
        hello.newest = newest;
        hello.newest_nodes = newest == 2 ? 3 : 4;
        next.hello(id, hello);
    };
    for (const char* id : {"b", "c", "d"}) returning(id, id[0] == 'd' ? 2 : 1);
    next.pass(seconds(10));
    CHECK(next.machine.generation() == 2);  // known now, but one of its three is too few
    CHECK(next.machine.phase() == Phase::gathering);
    returning("a", 2);
    next.pass(seconds(3));
    CHECK(next.machine.phase() == Phase::running);
    CHECK(next.machine.generation() == 3);
}

TEST_CASE("a successor that restores the end of the job waits for those who do not know it yet") {
    Job job = running_job(policy_of(2, 2), {"a", "b"});
    Job next(Rendezvous::restore(job.machine.snapshot(), policy_of(2, 2), job.at()), job.elapsed());
    REQUIRE(next.machine.facts("a"));
    CHECK(next.machine.facts("a")->host == job.machine.facts("a")->host);
    CHECK_FALSE(next.machine.facts("nobody"));
    up::Hello dead = next.hello_of("a");
    dead.running = 1;
    next.hello("a", dead);
    next.lose("a");
    REQUIRE(next.machine.phase() == Phase::over);
    CHECK_FALSE(next.machine.is_done());
    SUBCASE("and tells them") {
        up::Hello alive = next.hello_of("b");
        alive.running = 1;
        next.hello("b", alive);
        CHECK_FALSE(next.machine.is_done());
        next.say("b", up::Bye{});
        CHECK(next.machine.is_done());
    }
    SUBCASE("but not for ever") {
        next.pass(seconds(3));
        CHECK(next.machine.is_done());
    }
}
