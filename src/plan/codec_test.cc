// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "plan/plan.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::plan;

namespace {

NodePlan full_plan() {
    NodePlan p;
    p.attempt = AttemptId("j-abc.1");
    p.job_name = "Digits";
    p.job_arn = "arn:aws:sagemaker:eu-west-1:000000000000:training-job/digits";
    p.region = "eu-west-1";
    p.account = "000000000000";
    p.role_arn = "arn:aws:iam::000000000000:role/R";
    p.endpoint = "http://127.0.0.1:4545";
    p.credentials = {"AKID", "secret", "token"};
    p.hosts = {"algo-1", "algo-10", "algo-2"};
    p.host = "algo-10";
    p.instance_type = "ml.m5.large";
    p.gpus = 2;
    p.stream = "Digits/algo-10-1762116564";
    p.environment.name = "pytorch";
    p.environment.python = "/opt/venv/bin/python";
    p.environment.path = {"/opt/venv/bin"};
    p.environment.variables = {{"B", "2"}, {"A", "1"}};
    p.environment.toolkit = true;
    p.environment.launcher = true;
    p.entrypoint = {"bash", "-c"};
    p.arguments = {"echo \"x\n\""};
    p.hyperparameters = {{"z", "\"quoted\""}, {"a", "1"}, {"z2", ""}};
    p.variables = {{"K", "V=W"}};
    Channel channel;
    channel.name = "train";
    channel.uri = "s3://b/p";
    channel.input_mode = InputMode::pipe;
    channel.distribution = Distribution::sharded_by_key;
    channel.data_type = DataType::manifest_file;
    p.channels = {channel};
    p.output.uri = "s3://b/out";
    p.output.compression = Output::Compression::none;
    p.limits.max_runtime = seconds(77);
    p.limits.memory = Bytes(1ull << 40);
    p.limits.cpus = 3;
    p.warnings = {"no accelerator is used"};
    p.sdk_files = {{"/etc/ca.pem", "---"}};
    p.instance_group = "workers";
    p.groups = {{"head", "ml.m5.large", {"algo-1"}}, {"workers", "local", {"algo-10", "algo-2"}}};
    p.attempt_number = 3;
    Checkpoint checkpoint;
    checkpoint.uri = "gs://b/ckpt";
    checkpoint.local_path = "/tmp/ckpt";
    checkpoint.keep = 5;
    checkpoint.resume = "000001-000000002-000000003-algo-1";
    checkpoint.endpoint = "https://storage.googleapis.com";
    checkpoint.credentials = {"G", "s", ""};
    p.checkpoint = checkpoint;
    p.elastic = Elastic{1, 4, 2, "rendezvous secret"};
    return p;
}

std::string message_of(const std::string& text) {
    try {
        plan_from_json(text);
    } catch (const Error& error) {
        return error.message();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("a node plan survives the wire with the order of hyperparameters kept") {
    const NodePlan sent = full_plan();
    const std::string wire = to_json(sent);
    const NodePlan got = plan_from_json(wire);
    CHECK(to_json(got) == wire);
    CHECK(got.attempt == sent.attempt);
    CHECK(got.hyperparameters == sent.hyperparameters);
    CHECK(got.environment.variables == sent.environment.variables);
    CHECK(got.channels.at(0).input_mode == InputMode::pipe);
    CHECK(got.channels.at(0).data_type == DataType::manifest_file);
    CHECK(got.output.compression == Output::Compression::none);
    CHECK(got.limits.memory == sent.limits.memory);
    CHECK(got.limits.max_runtime == seconds(77));
    CHECK(got.hosts == sent.hosts);
    CHECK(got.credentials.session_token == "token");
    CHECK(got.attempt_number == 3);
    REQUIRE(got.groups.size() == 2);
    CHECK(got.groups[1].hosts == std::vector<std::string>{"algo-10", "algo-2"});
    REQUIRE(got.checkpoint.has_value());
    CHECK(got.checkpoint->keep == 5);
    CHECK(got.checkpoint->resume == sent.checkpoint->resume);
    CHECK(got.checkpoint->credentials.secret_key == "s");
    REQUIRE(got.elastic.has_value());
    CHECK(got.elastic->max_nodes == 4);
    CHECK(got.elastic->max_restarts == 2);
    CHECK(got.elastic->token == "rendezvous secret");
}

TEST_CASE("a plan without checkpoint and range has none after the wire") {
    NodePlan sent = full_plan();
    sent.checkpoint.reset();
    sent.elastic.reset();
    const NodePlan got = plan_from_json(to_json(sent));
    CHECK_FALSE(got.checkpoint.has_value());
    CHECK_FALSE(got.elastic.has_value());
    CHECK(message_of(R"({"version":2,"attempt":"a","host":"h","checkpoint":{}})")
              .find("plan.checkpoint.uri must be given") != std::string::npos);
}

TEST_CASE("unknown members are ignored and missing ones keep their default") {
    const NodePlan got =
        plan_from_json(R"({"version":2,"attempt":"a.1","host":"algo-1","future":[1]})");
    CHECK(got.limits.max_runtime == seconds(86400));
    CHECK(got.instance_group == "homogeneousCluster");
}

TEST_CASE("a wrong plan is refused with the path of the field") {
    CHECK(message_of(R"({"version":2,"host":"algo-1"})").find("plan.attempt") != std::string::npos);
    CHECK(message_of(R"({"version":2,"attempt":"a","host":3})").find("plan.host must be text") !=
          std::string::npos);
    CHECK(message_of(R"({"version":2,"attempt":"a","host":"h","gpus":1.5})").find("plan.gpus") !=
          std::string::npos);
    CHECK(message_of(R"({"version":2,"attempt":"a","host":"h","gpus":99999999999})")
              .find("between") != std::string::npos);
    CHECK(message_of(R"({"version":2,"attempt":"a","host":"h","limits":{"memory":-1}})")
              .find("plan.limits.memory") != std::string::npos);
    CHECK(
        message_of(
            R"({"version":2,"attempt":"a","host":"h","limits":{"max_runtime":18446744073709551615}})")
            .find("plan.limits.max_runtime") != std::string::npos);
    CHECK(message_of(R"({"version":2,"attempt":"a","host":"h","hyperparameters":[["k"]]})")
              .find("list of pairs") != std::string::npos);
    CHECK(message_of("[]").find("plan must be an object") != std::string::npos);
    CHECK(message_of("{").find("not valid JSON") != std::string::npos);
}

TEST_CASE("a plan of another version names both versions and the remedy") {
    try {
        plan_from_json(R"({"version":1,"attempt":"a","host":"h"})");
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.code() == Code::unsupported);
        CHECK(error.message().find("version 1 ") != std::string::npos);
        CHECK(error.message().find("understands 2") != std::string::npos);
    }
}

TEST_CASE("every event payload survives the wire") {
    SyncRequest request;
    request.host = "algo-1";
    request.wait = milliseconds(20000);
    request.commands_seen = 4;
    request.events = {
        Event{1, from_epoch_millis(1000), "algo-1", AgentUp{42, "namespaces"}},
        Event{2, from_epoch_millis(1001), "algo-1", PhaseChanged{Phase::downloading, "3 of 4"}},
        Event{3, from_epoch_millis(1002), "algo-1",
              Finished{{Outcome::Kind::failed, "AlgorithmError: , exit code: 1", 1}, true}},
        Event{4, from_epoch_millis(1003), "algo-1",
              Finished{{Outcome::Kind::stopped, "", {}}, false}},
    };
    const SyncRequest got = sync_request_from_json(to_json(request));
    CHECK(to_json(got) == to_json(request));
    REQUIRE(got.events.size() == 4);
    CHECK(std::get<AgentUp>(got.events[0].payload).pid == 42);
    CHECK(std::get<PhaseChanged>(got.events[1].payload).phase == Phase::downloading);
    const auto& finished = std::get<Finished>(got.events[2].payload);
    CHECK(finished.outcome.kind == Outcome::Kind::failed);
    CHECK(finished.outcome.exit_code == 1);
    CHECK(finished.model_uploaded);
    CHECK_FALSE(std::get<Finished>(got.events[3].payload).outcome.exit_code.has_value());
    CHECK(to_json(event_from_json(to_json(request.events[2]))) == to_json(request.events[2]));
}

TEST_CASE("what a node of many says survives the wire") {
    const std::vector<Payload> payloads = {
        Finished{{Outcome::Kind::interrupted, "spot", {}}, false},
        Collected{true, false},
        CheckpointCommitted{"000001-000000000-000000007-algo-1", 120, 1ull << 40, 17, 3,
                            from_epoch_millis(99)},
        CheckpointCommitted{"x", {}, 0, 0, 0, from_epoch_millis(0)},
        CheckpointRestored{"", 4096, 2},
        GenerationChanged{12, 4, true, ""},
        GenerationChanged{12, 3, false, "preemption"},
        Progress{5, 0, "epoch \"1\""},
    };
    for (const Payload& payload : payloads) {
        const Event sent{7, from_epoch_millis(5), "algo-2~3", payload};
        const Event got = event_from_json(to_json(sent));
        CHECK(to_json(got) == to_json(sent));
        CHECK(got.payload.index() == payload.index());
        CHECK(got.host == "algo-2~3");
    }
    const auto back = [&](std::size_t i) {
        return event_from_json(to_json(Event{1, from_epoch_millis(5), "h", payloads[i]})).payload;
    };
    CHECK(std::get<Finished>(back(0)).outcome.kind == Outcome::Kind::interrupted);
    CHECK(std::get<Collected>(back(1)).model);
    CHECK(std::get<CheckpointCommitted>(back(2)).step == 120);
    CHECK(std::get<CheckpointCommitted>(back(2)).bytes == 1ull << 40);
    CHECK(std::get<CheckpointCommitted>(back(2)).taken == from_epoch_millis(99));
    CHECK_FALSE(std::get<CheckpointCommitted>(back(3)).step.has_value());
    CHECK(std::get<CheckpointRestored>(back(4)).skipped == 2);
    CHECK(std::get<GenerationChanged>(back(6)).cause == "preemption");
    CHECK(std::get<Progress>(back(7)).step == 5);
}

TEST_CASE("every command survives the wire, alone and in a reply") {
    const std::vector<Command> commands = {Stop{seconds(5)},
                                           Interrupt{milliseconds(30'000), "spot \"x\""},
                                           Freeze{milliseconds(1500)},
                                           Partition{milliseconds(2500)},
                                           Finish{{"algo-1", "algo-2~2"}},
                                           Finish{}};
    for (const Command& command : commands) {
        CHECK(to_json(command_from_json(to_json(command))) == to_json(command));
        SyncReply reply;
        reply.command_number = 9;
        reply.command = command;
        const SyncReply got = sync_reply_from_json(to_json(reply));
        CHECK(got.command_number == 9);
        REQUIRE(got.command.has_value());
        CHECK(got.command->index() == command.index());
        CHECK(to_json(*got.command) == to_json(command));
    }
    CHECK(std::get<Interrupt>(command_from_json(to_json(commands[1]))).notice ==
          milliseconds(30'000));
    CHECK(std::get<Finish>(command_from_json(to_json(commands[4]))).parts.at(1) == "algo-2~2");
    CHECK_THROWS_AS(command_from_json(R"({"type":"Freeze","time":-1})"), Error);
    CHECK_THROWS_AS(command_from_json("{}"), Error);
}

TEST_CASE("unknown variants and sequence number zero are refused") {
    CHECK_THROWS_AS(
        event_from_json(R"({"seq":1,"time":1,"host":"h","payload":{"type":"Exploded"}})"), Error);
    CHECK_THROWS_AS(
        event_from_json(R"({"seq":0,"time":1,"host":"h","payload":{"type":"AgentUp"}})"), Error);
    CHECK_THROWS_AS(
        event_from_json(
            R"({"seq":1,"time":1,"host":"h","payload":{"type":"PhaseChanged","phase":"x"}})"),
        Error);
    CHECK_THROWS_AS(sync_reply_from_json(R"({"command":{"type":"Dance"}})"), Error);
}

TEST_CASE("a reply carries its command") {
    SyncReply reply;
    reply.acknowledged = 7;
    reply.command_number = 2;
    reply.command = Stop{seconds(5)};
    const SyncReply got = sync_reply_from_json(to_json(reply));
    CHECK(got.acknowledged == 7);
    CHECK(std::get<Stop>(got.command.value()).grace == seconds(5));
    CHECK_FALSE(sync_reply_from_json(to_json(SyncReply{})).command.has_value());
}
