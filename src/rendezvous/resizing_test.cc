// SPDX-License-Identifier: Apache-2.0
// Nodes that leave, nodes that come, coordinators that take over, and many nodes at once.
#include "base/format.h"
#include "rendezvous/rendezvous.h"
#include "rendezvous/testing.h"

#include <chrono>

using namespace ty;
using namespace ty::rendezvous;
using namespace ty::rendezvous::testing;

// ---- leaving
// -------------------------------------------------------------------------------------

TEST_CASE("a leaving node is waited for with a checkpoint and let go") {
    Job job = running_job(policy_of(2, 3, 0), {"a", "b", "c"});
    job.say("b", up::Leaving{seconds(30), "spot notice"});
    CHECK(job.machine.phase() == Phase::draining);
    for (const char* id : {"a", "b", "c"}) {
        REQUIRE(job.told<down::CheckpointNow>(id).size() == 1);
        CHECK(job.told<down::CheckpointNow>(id).at(0).deadline == seconds(30));
    }
    job.say("b", up::Leaving{seconds(40), "again"});
    CHECK(job.told<down::CheckpointNow>("a").size() == 1);
    job.say("b", up::Leaving{seconds(10), "sooner"});
    CHECK(job.told<down::CheckpointNow>("a").at(1).deadline == seconds(10));
    job.say("a", up::Checkpointed{1, "step 7"});
    CHECK(job.told<down::Abort>("c").at(0).cause == Cause::preemption);
    CHECK_FALSE(job.told<down::Abort>("c").at(0).graceful);
    job.stop_all({"a", "b", "c"});
    CHECK(job.machine.generation() == 2);
    CHECK(job.members() == Ids{"a", "c"});
    CHECK(job.finish_of("b").verdict == Verdict::drained);
    job.say("b", up::Bye{});
    CHECK(job.machine.phase() == Phase::running);
}

TEST_CASE("a drain ends at its deadline without a checkpoint") {
    Job job = running_job(policy_of(1, 2, 0), {"a", "b"});
    job.say("b", up::Leaving{seconds(5), ""});
    job.pass(milliseconds(4999));
    CHECK(job.machine.phase() == Phase::draining);
    job.pass(milliseconds(1));
    CHECK(job.machine.phase() == Phase::stopping);
}

TEST_CASE("a drain below min_nodes waits for replacements even without restarts") {
    Job job = running_job(policy_of(2, 2, 0), {"a", "b"});
    job.say("b", up::Leaving{seconds(5), ""});
    job.say("a", up::Checkpointed{1, ""});
    job.stop_all({"a", "b"});
    job.say("b", up::Bye{});
    job.pass(seconds(100));
    CHECK(job.machine.phase() == Phase::gathering);
    job.join("c");
    CHECK(job.members() == Ids{"a", "c"});
}

TEST_CASE("a job whose nodes all leave is drained") {
    const Ids ids = {"a", "b"};
    Job job = running_job(policy_of(1, 2, 0), ids);
    for (const std::string& id : ids) job.say(id, up::Leaving{seconds(5), ""});
    job.say("a", up::Checkpointed{1, ""});
    job.stop_all(ids);
    CHECK(job.machine.phase() == Phase::over);
    for (const std::string& id : ids) CHECK(job.finish_of(id).verdict == Verdict::drained);
}

TEST_CASE("a single node leaves through a checkpoint too") {
    Job job = running_job(policy_of(1, 1, 0), {"a"});
    job.say("a", up::Leaving{seconds(5), ""});
    CHECK(job.told<down::CheckpointNow>("a").size() == 1);
    job.say("a", up::Checkpointed{1, ""});
    CHECK(job.told<down::Abort>("a").size() == 1);
    job.stopped("a");
    CHECK(job.finish_of("a").verdict == Verdict::drained);
}

TEST_CASE("a failure during a drain is a failure, and who leaves still leaves") {
    Job job = running_job(policy_of(1, 2, 1), {"a", "b"});
    job.say("b", up::Leaving{seconds(5), ""});
    job.fail("a");
    CHECK(job.told<down::Abort>("a").at(0).cause == Cause::application);
    job.stop_all({"a", "b"});
    CHECK(job.members() == Ids{"a"});
    CHECK(job.finish_of("b").verdict == Verdict::drained);
    CHECK(job.machine.view().spent.at(Cause::application) == 1);
}

TEST_CASE("a leaving node that vanishes early counts as preemption") {
    Job job = running_job(policy_of(1, 2, 0), {"a", "b"});
    job.say("b", up::Leaving{seconds(5), ""});
    job.lose("b");
    CHECK(job.told<down::Abort>("a").at(0).cause == Cause::preemption);
    job.stopped("a");
    CHECK(job.machine.view().spent.at(Cause::preemption) == 1);
    CHECK(job.members() == Ids{"a"});
}

TEST_CASE("everyone succeeding during a drain is success") {
    Job job = running_job(policy_of(1, 2, 0), {"a", "b"});
    job.say("b", up::Leaving{seconds(5), ""});
    job.say("a", up::Succeeded{1});
    job.say("b", up::Succeeded{1});
    CHECK(job.finish_of("b").verdict == Verdict::succeeded);
}

// ---- growth
// --------------------------------------------------------------------------------------

TEST_CASE("newcomers are let in when warm and the debounce has passed") {
    Job job = running_job(policy_of(2, 4, 0), {"a", "b"});
    job.join("c");
    CHECK(job.noted("newcomer"));
    job.pass(seconds(5));
    CHECK(job.machine.phase() == Phase::running);
    job.join("d");
    job.say("c", up::Warm{});
    job.pass(milliseconds(400));
    job.say("d", up::Warm{});
    job.pass(milliseconds(99));
    CHECK(job.machine.phase() == Phase::running);
    job.pass(milliseconds(1));
    CHECK(job.told<down::Abort>("a").at(0).cause == Cause::resize);
    CHECK(job.told<down::Abort>("c").empty());
    job.stop_all({"a", "b"});
    CHECK(job.members() == Ids{"a", "b", "c", "d"});
}

TEST_CASE("newcomers that do not warm up come in after warm_timeout") {
    Job job = running_job(policy_of(1, 2, 0), {"a"});
    job.join("b");
    job.pass(milliseconds(19999));
    CHECK(job.machine.phase() == Phase::running);
    job.pass(milliseconds(1));
    CHECK(job.machine.phase() == Phase::stopping);
}

TEST_CASE("growth at a checkpoint waits for one, up to resize_deadline") {
    Policy policy = policy_of(1, 2, 0);
    policy.resize = ResizeWhen::checkpoint;
    Job job = running_job(policy, {"a"});
    up::Hello hello = job.hello_of("b");
    hello.warm = true;
    job.hello("b", hello);
    job.pass(milliseconds(500));
    CHECK(job.machine.phase() == Phase::draining);
    CHECK(job.told<down::CheckpointNow>("a").at(0).cause == Cause::resize);
    SUBCASE("a checkpoint") {
        job.say("a", up::Checkpointed{1, ""});
    }
    SUBCASE("the deadline") {
        job.pass(policy.resize_deadline);
    }
    CHECK(job.told<down::Abort>("a").at(0).cause == Cause::resize);
    job.stopped("a");
    CHECK(job.members() == Ids{"a", "b"});
}

TEST_CASE("growth stops at its budget and where it is forbidden") {
    Policy policy = policy_of(1, 3, 5);
    SUBCASE("never") {
        policy.resize = ResizeWhen::never;
    }
    SUBCASE("budget") {
        policy.budgets[Cause::resize] = 0;
    }
    Job job = running_job(policy, {"a"});
    job.join("b");
    job.pass(seconds(60));
    CHECK(job.machine.generation() == 1);
    CHECK(job.machine.phase() == Phase::running);
    if (policy.resize == ResizeWhen::never) {
        job.fail("a");
        job.stopped("a");
        CHECK(job.members() == Ids{"a"});
    }
}

TEST_CASE("ranks: a replacement that grows in gets the hole, survivors keep their order") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    job.lose("a");
    job.stop_all({"b", "c"});
    CHECK(job.members() == Ids{"b", "c"});
    up::Hello hello = job.hello_of("z");
    hello.warm = true;
    job.hello("z", hello);
    job.pass(milliseconds(500));
    job.stop_all({"b", "c"});
    CHECK(job.members() == Ids{"z", "b", "c"});
}

// ---- another coordinator
// -------------------------------------------------------------------------

TEST_CASE("a restarted coordinator is no event for nodes that come back") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    const std::string text = job.machine.snapshot();
    Job next(Rendezvous::restore(text, policy_of(2, 3, 1), job.at()), job.elapsed());
    CHECK(next.machine.snapshot() == text);
    CHECK(next.machine.phase() == Phase::running);
    CHECK(next.members() == Ids{"a", "b", "c"});
    for (const char* id : {"a", "b", "c"}) next.join(id, 1);
    next.pass(seconds(60));
    CHECK(next.machine.generation() == 1);
    CHECK(next.count<down::Abort>() == 0);
    for (const char* id : {"a", "b", "c"}) next.say(id, up::Succeeded{1});
    CHECK(next.machine.phase() == Phase::over);
}

TEST_CASE("members that do not come back to a restarted coordinator are silent ones") {
    Job job = running_job(policy_of(2, 3, 1), {"a", "b", "c"});
    Job next(Rendezvous::restore(job.machine.snapshot(), policy_of(2, 3, 1), job.at()),
             job.elapsed());
    next.join("a", 1);
    next.join("b", 1);
    next.pass(milliseconds(1250));
    CHECK(next.machine.phase() == Phase::stopping);
    next.stop_all({"a", "b"});
    next.pass(milliseconds(499));
    CHECK(next.machine.generation() == 1);
    next.pass(milliseconds(1));
    CHECK(next.machine.generation() == 2);
}

TEST_CASE("an abort is finished by the next coordinator, with causes and budgets") {
    Job job = running_job(policy_of(2, 2, 1), {"a", "b"});
    job.fail("a");
    Job next(Rendezvous::restore(job.machine.snapshot(), policy_of(2, 2, 1), job.at()),
             job.elapsed());
    CHECK(next.machine.phase() == Phase::stopping);
    next.join("a", 0);
    next.join("b", 1);
    REQUIRE(next.told<down::Abort>("b").size() == 1);
    CHECK(next.told<down::Abort>("b").at(0).cause == Cause::application);
    next.stopped("b");
    next.pass(seconds(3));
    CHECK(next.machine.generation() == 2);
    CHECK(next.machine.view().spent.at(Cause::application) == 1);
}

TEST_CASE("a drain goes on under the next coordinator") {
    Job job = running_job(policy_of(1, 2, 1), {"a", "b"});
    job.say("b", up::Leaving{seconds(30), ""});
    Job next(Rendezvous::restore(job.machine.snapshot(), policy_of(1, 2, 1), job.at()),
             job.elapsed());
    next.join("a", 1);
    next.join("b", 1);
    CHECK(next.told<down::CheckpointNow>("a").size() == 1);
    next.say("a", up::Checkpointed{1, ""});
    next.stop_all({"a", "b"});
    CHECK(next.members() == Ids{"a"});
}

TEST_CASE("nodes that run more than the coordinator knows of set the generation and are aborted") {
    Job job(policy_of(2, 2, 1));
    job.join("a", 7);
    CHECK(job.told<down::Abort>("a").at(0).generation == 7);
    job.say("a", up::Stopped{7, 1});
    job.join("b", 0);
    // Others of generation 7 may be on their way: their fences must have fallen first.
    job.pass(milliseconds(2999));
    CHECK(job.machine.phase() == Phase::gathering);
    job.pass(milliseconds(1));
    CHECK(job.machine.generation() == 8);
}

TEST_CASE("a job that is over stays over") {
    Job job = running_job(policy_of(1, 1), {"a"});
    job.say("a", up::Succeeded{1});
    Job next(Rendezvous::restore(job.machine.snapshot(), policy_of(1, 1), job.at()), job.elapsed());
    CHECK(next.machine.phase() == Phase::over);
    CHECK_FALSE(next.machine.is_done());  // "a" may not have heard it
    next.join("a", 1);
    CHECK(next.finish_of("a").verdict == Verdict::succeeded);
    next.say("a", up::Bye{});
    CHECK(next.machine.is_done());
}

// ---- size
// ----------------------------------------------------------------------------------------

TEST_CASE("256 nodes form, lose ten and grow back with messages proportional to their number") {
    const auto name = [](int i) { return fmt::format("n{}", i); };
    Policy policy = policy_of(200, 256, 1);
    policy.resize_debounce = milliseconds(100);
    Job job(policy);
    for (int i = 255; i >= 0; --i) job.join(name(i));
    REQUIRE(job.machine.phase() == Phase::running);
    CHECK(job.members().at(0) == "n0");
    CHECK(job.members().at(100) == "n100");
    // A Welcome and a Start each, and three snapshots.
    CHECK(job.sent.size() == 2 * 256 + 3);
    job.forget();

    for (int i = 100; i < 110; ++i) job.lose(name(i));
    for (int i = 0; i < 256; ++i)
        if (i < 100 || i >= 110) job.stopped(name(i));
    CHECK(job.machine.generation() == 2);
    CHECK(job.members().size() == 246);
    CHECK(job.members().at(100) == "n110");
    CHECK(job.sent.size() <= 2 * 256 + 10);
    job.forget();

    for (int i = 300; i < 310; ++i) {
        up::Hello hello = job.hello_of(name(i));
        hello.warm = true;
        job.hello(name(i), hello);
    }
    job.pass(milliseconds(100));
    REQUIRE(job.machine.phase() == Phase::stopping);
    for (int i = 0; i < 256; ++i)
        if (i < 100 || i >= 110) job.stopped(name(i));
    CHECK(job.machine.generation() == 3);
    CHECK(job.members().size() == 256);
    CHECK(job.members().at(99) == "n99");
    CHECK(job.members().at(100) == "n300");
    CHECK(job.members().at(255) == "n255");
    CHECK(job.count<down::Start>() == 256);
    CHECK(job.count<down::Abort>() == 246);
    CHECK(job.count<down::Snapshot>() <= 9);
}
