// SPDX-License-Identifier: Apache-2.0
// The operations as a client meets them: JSON in, JSON out, over the real job service, object store
// and telemetry; only the agents are a fake.
#include "api/api.h"
#include "base/sync.h"
#include "engine/fake/fake.h"
#include "shapes/shapes.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>

using namespace ty;
using namespace std::chrono_literals;

namespace {

class TestClock final : public Clock {
public:
    Instant now() const override {
        return Instant(milliseconds(now_.with([](long long& t) { return ++t; })));
    }
    Monotonic monotonic() const override { return Monotonic(0s); }

private:
    mutable Sync<long long> now_{1'762'116'564'000};
};

images::Definition shell_image() {
    images::Definition definition;
    definition.name = "shell";
    definition.match = {"shell:*"};
    definition.toolkit = false;
    return definition;
}

/// A daemon's insides without its server.
struct World {
    explicit World(api::Settings settings = {})
        : services{jobs, objects, logs, metrics, tap, images, clock, ids, std::move(settings)} {
        jobs.on_change([this](const jobs::Job& job) {
            states_.with([&](std::map<std::string, jobs::Secondary>& s) {
                s[job.spec.name] = job.secondary();
            });
            states_.notify();
        });
        services.settings.endpoint = "http://127.0.0.1:4545";
        objects.create_bucket("data", "us-east-1");
        put("digits/train/1.txt", "one");
    }

    void put(const std::string& key, const std::string& text) {
        bool done = false;
        objects.put("data", key, {}, [&](std::span<std::byte> into) -> std::size_t {
            if (done) return 0;
            done = true;
            std::memcpy(into.data(), text.data(), text.size());
            return text.size();
        });
    }

    struct Answer {
        int status = 0;
        Json body;
        std::string type() const { return body.value("__type", ""); }
        std::string message() const { return body.value("message", ""); }
    };
    Answer call(const std::string& operation, const std::string& body,
                const std::string& invocation = {}) {
        http::Request request;
        request.method = "POST";
        request.path = "/";
        if (!invocation.empty()) request.headers.add("amz-sdk-invocation-id", invocation);
        const aws::Verified verified;
        api::Call one{services,  request, verified, {"AK", "us-east-1", "sagemaker", "request-1"},
                      operation, body};
        const http::Response response = api::serve_sagemaker(one);
        return {response.status,
                response.body.empty() ? Json::object() : parse_json(response.body)};
    }
    Answer call(const std::string& operation, const Json& body,
                const std::string& invocation = {}) {
        return call(operation, dump_json(body), invocation);
    }

    /// The agent of the n-th launch reports these; numbered from `seq` on.
    void report(std::size_t n, std::uint64_t seq, std::vector<plan::Payload> payloads) {
        REQUIRE(engine.wait_launched(n + 1, Deadline::in(10s)));
        const auto agent = jobs.authenticate(engine.launched()[n].agents.at(0).token);
        REQUIRE(agent.has_value());
        plan::SyncRequest request;
        request.host = agent->host;
        for (plan::Payload& payload : payloads)
            request.events.push_back({seq++, clock.now(), agent->host, std::move(payload)});
        jobs.sync(*agent, request, {});
    }
    bool wait_for(const std::string& name, jobs::Secondary secondary) {
        const auto reached = [&](const auto& s) {
            return s.contains(name) && s.at(name) == secondary;
        };
        return states_.wait(Deadline::in(10s), {}, reached, reached);
    }

    sys::TempDir dir{"sagemaker-test"};
    TestClock clock;
    SystemIds ids;
    store::Db db{dir.path() / "state.db", {.durability = store::DbOptions::Durability::normal}};
    objects::ObjectStore objects{dir.path() / "objects", db, clock};
    telemetry::LogStore logs{dir.path() / "logs", clock};
    telemetry::MetricStore metrics{db};
    telemetry::MetricTap tap{logs, db};
    images::Catalogue images{{shell_image()}, {}};
    engine::FakeEngine engine;
    Sync<std::map<std::string, jobs::Secondary>> states_;
    jobs::JobService jobs{
        db, engine, clock, ids, {"http://127.0.0.1:4545", [](const AttemptId& attempt) {
                                     return plan::Credentials{"AK" + attempt.str(), "secret", ""};
                                 }}};
    api::Services services;
};

Json request_of(const std::string& name) {
    Json request = parse_json(R"j({
        "RoleArn":"arn:aws:iam::000000000000:role/r",
        "HyperParameters":{"z":"\"1\"","a":"true"},
        "AlgorithmSpecification":{"TrainingImage":"shell:1","TrainingInputMode":"File",
            "ContainerEntrypoint":["sh"],
            "MetricDefinitions":[{"Name":"loss","Regex":"loss=([0-9.]+)"}]},
        "InputDataConfig":[{"ChannelName":"train","DataSource":{"S3DataSource":
            {"S3DataType":"S3Prefix","S3Uri":"S3://data/digits/train"}}}],
        "OutputDataConfig":{"S3OutputPath":"s3://data/out/"},
        "ResourceConfig":{"InstanceType":"ml.m5.xlarge","InstanceCount":1,"VolumeSizeInGB":30},
        "StoppingCondition":{"MaxRuntimeInSeconds":60},
        "Tags":[{"Key":"team","Value":"vision"}]})j");
    request["TrainingJobName"] = name;
    return request;
}

Json named(const std::string& name) {
    Json request = Json::object();
    request["TrainingJobName"] = name;
    return request;
}

}  // namespace

TEST_CASE("a created job is described with what was sent, the defaults and its state") {
    World world;
    const auto created = world.call("CreateTrainingJob", request_of("Digits-1"));
    REQUIRE_MESSAGE(created.status == 200, created.message());
    const std::string arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/digits-1";
    CHECK(created.body["TrainingJobArn"] == arn);

    const Json job = world.call("DescribeTrainingJob", named("Digits-1")).body;
    CHECK(job["TrainingJobName"] == "Digits-1");
    CHECK(job["TrainingJobArn"] == arn);
    CHECK(job["TrainingJobStatus"] == "InProgress");
    CHECK(dump_json(job["HyperParameters"]) == R"({"z":"\"1\"","a":"true"})");
    CHECK(job["InputDataConfig"][0]["CompressionType"] == "None");
    CHECK(job["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] ==
          "S3://data/digits/train");
    CHECK(job["OutputDataConfig"]["KmsKeyId"] == "");
    CHECK(job["OutputDataConfig"]["CompressionType"] == "GZIP");
    CHECK(job["OutputDataConfig"]["S3OutputPath"] == "s3://data/out/");
    CHECK(job["EnableManagedSpotTraining"] == false);
    CHECK(job["TrainyardEnvironment"]["Name"] == "shell");
    CHECK_FALSE(job.contains("Tags"));
    CHECK_FALSE(job.contains("ModelArtifacts"));
    CHECK_FALSE(job.contains("TrainingTimeInSeconds"));

    std::vector<std::string> unknown;
    const auto typed = shape::read<shapes::DescribeTrainingJobResponse>(job, &unknown);
    CHECK(unknown == std::vector<std::string>{"trainyardEnvironment"});
    for (const auto& transition : *typed.secondary_status_transitions)
        CHECK(transition.status_message.has_value());
}

TEST_CASE("what the agent is given follows the request") {
    World world;
    world.services.settings.job_variables = {{"A", "below"}, {"B", "below"}};
    REQUIRE(world.call("CreateTrainingJob", request_of("job")).status == 200);
    const auto job = world.jobs.find("us-east-1", "job");
    REQUIRE(job.has_value());
    const plan::NodePlan& node = job->spec.node;
    CHECK(node.output.uri == "s3://data/out/job/output");
    CHECK(node.channels.at(0).uri == "s3://data/digits/train");
    CHECK(node.channels.at(0).input_mode == plan::InputMode::file);
    CHECK(node.entrypoint == std::vector<std::string>{"sh"});
    CHECK(node.limits.max_runtime == 60s);
    CHECK(node.hyperparameters == plan::Pairs{{"z", "\"1\""}, {"a", "true"}});
    CHECK(node.environment.variables == plan::Pairs{{"A", "below"}, {"B", "below"}});
    CHECK(job->spec.warning.empty());
}

TEST_CASE("a finished job reports times, metrics and its artefact") {
    World world;
    REQUIRE(world.call("CreateTrainingJob", request_of("job")).status == 200);
    world.metrics.put({std::string(telemetry::kTrainingJobs), "loss", {{"TrainingJobName", "job"}}},
                      std::vector<telemetry::MetricPoint>{{world.clock.now(), 0.9123}});
    world.report(0, 1,
                 {plan::PhaseChanged{plan::Phase::downloading, ""},
                  plan::PhaseChanged{plan::Phase::training, ""},
                  plan::PhaseChanged{plan::Phase::uploading, ""},
                  plan::Finished{{plan::Outcome::Kind::completed, "", 0}, true}});
    REQUIRE(world.wait_for("job", jobs::Secondary::completed));
    const Json job = world.call("DescribeTrainingJob", named("job")).body;
    CHECK(job["ModelArtifacts"]["S3ModelArtifacts"] == "s3://data/out/job/output/model.tar.gz");
    CHECK(job["TrainingTimeInSeconds"] == 1);
    CHECK(job["BillableTimeInSeconds"] == 1);
    CHECK(job["TrainingEndTime"].get<double>() >= job["TrainingStartTime"].get<double>());
    CHECK(job["FinalMetricDataList"][0]["MetricName"] == "loss");
    CHECK(job["FinalMetricDataList"][0]["Value"].get<double>() == 0.9122999906539917);
    const Json& transitions = job["SecondaryStatusTransitions"];
    CHECK(transitions.back()["Status"] == "Completed");
    CHECK(transitions.back()["StartTime"] == transitions.back()["EndTime"]);

    const auto stop = world.call("StopTrainingJob", named("job"));
    CHECK(stop.status == 400);
    CHECK(stop.type() == "ValidationException");
    CHECK(stop.message() ==
          "The request was rejected because the training job is in status Completed");
    CHECK(world.call("DeleteTrainingJob", named("job")).status == 200);
    CHECK(world.call("DescribeTrainingJob", named("job")).message() ==
          "Requested resource not found.");
}

TEST_CASE("a job nobody knows is a validation error for every operation on one") {
    World world;
    for (const char* operation :
         {"DescribeTrainingJob", "StopTrainingJob", "UpdateTrainingJob", "DeleteTrainingJob"}) {
        const auto answer = world.call(operation, named("none"));
        CHECK(answer.status == 400);
        CHECK(answer.type() == "ValidationException");
        CHECK(answer.message() == "Requested resource not found.");
    }
}

TEST_CASE("a name is taken once, but a repeated request gets its own job back") {
    World world;
    REQUIRE(world.call("CreateTrainingJob", request_of("job"), "invocation-1").status == 200);
    const auto again = world.call("CreateTrainingJob", request_of("job"), "invocation-1");
    CHECK(again.status == 200);
    for (const std::string invocation : {"", "invocation-2"}) {
        const auto other = world.call("CreateTrainingJob", request_of("job"), invocation);
        CHECK(other.status == 400);
        CHECK(other.type() == "ResourceInUse");
        CHECK(other.message() ==
              "Training job names must be unique within an AWS account and region, and a training "
              "job "
              "with this name already exists "
              "(arn:aws:sagemaker:us-east-1:000000000000:training-job/job)");
    }
}

TEST_CASE("everything this machine lacks is said at once and nothing is stored") {
    World world;
    Json bad = request_of("job");
    bad["AlgorithmSpecification"]["TrainingImage"] = "shel:1";
    bad["AlgorithmSpecification"]["MetricDefinitions"][0]["Regex"] = "(";
    bad["OutputDataConfig"]["S3OutputPath"] = "s3://nowhere/x";
    bad["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] = "s3://data/none";
    bad["ResourceConfig"]["InstanceType"] = "ml.p3.2xlarge";
    const auto answer = world.call("CreateTrainingJob", bad);
    CHECK(answer.status == 400);
    CHECK(answer.type() == "ValidationException");
    const std::string text = answer.message();
    CHECK(text.starts_with("5 validation errors detected: "));
    for (const char* part :
         {"The instance type ml.p3.2xlarge needs 1 GPU and this machine has 0", "\"shel:1\"",
          "loss", "The bucket \"nowhere\" of OutputDataConfig.S3OutputPath",
          "No S3 objects found under S3 URL \"s3://data/none\" given in input data source. Please "
          "ensure "
          "that the bucket exists in the selected region (us-east-1), that objects exist under "
          "that S3 "
          "prefix, and that the role \"arn:aws:iam::000000000000:role/r\" has \"s3:ListBucket\" "
          "permissions on bucket \"data\"."}) {
        INFO(text);
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK_FALSE(world.jobs.find("us-east-1", "job").has_value());
}

TEST_CASE("a GPU type runs on the CPU only where the configuration says so, and the job says it") {
    api::Settings settings;
    settings.instance_map["ml.p3.2xlarge"] = "cpu";
    World world(settings);
    Json request = request_of("job");
    request["ResourceConfig"]["InstanceType"] = "ml.p3.2xlarge";
    REQUIRE(world.call("CreateTrainingJob", request).status == 200);
    const auto job = world.jobs.find("us-east-1", "job");
    CHECK(job->spec.node.gpus == 0);
    CHECK(job->spec.warning.find("ml.p3.2xlarge is mapped to the CPU") != std::string::npos);

    world.services.settings.host_gpus = 4;
    request["TrainingJobName"] = "job-2";
    request["ResourceConfig"]["InstanceType"] = "ml.g5.12xlarge";
    REQUIRE(world.call("CreateTrainingJob", request).status == 200);
    CHECK(world.jobs.find("us-east-1", "job-2")->spec.node.gpus == 4);
}

TEST_CASE("malformed requests name what is wrong") {
    World world;
    CHECK(world.call("CreateTrainingJob", std::string("{")).type() == "SerializationException");
    CHECK(world.call("CreateTrainingJob", std::string("[]")).type() == "SerializationException");
    const auto wrong = world.call("DescribeTrainingJob", std::string(R"({"TrainingJobName":1})"));
    CHECK(wrong.type() == "SerializationException");
    CHECK(wrong.message() == "'trainingJobName' must be a string, not a number");
    CHECK(world.call("DescribeTrainingJob", std::string()).message() ==
          "1 validation error detected: Value null at 'trainingJobName' failed to satisfy "
          "constraint: "
          "Member must not be null");
}

TEST_CASE("operations not served are told from operations that do not exist") {
    World world;
    const auto known = world.call("CreateHyperParameterTuningJob", std::string("{}"));
    CHECK(known.status == 400);
    CHECK(known.type() == "ValidationException");
    CHECK(known.message().starts_with(
        "CreateHyperParameterTuningJob is an operation of SageMaker that "
        "Trainyard does not support; it supports AddTags, "));
    const auto unknown = world.call("CreateTrainingJobs", std::string("{}"));
    CHECK(unknown.type() == "UnknownOperationException");
    CHECK(unknown.message().find("nearest is CreateTrainingJob") != std::string::npos);
}

TEST_CASE("stopping is asynchronous and may be asked twice") {
    World world;
    REQUIRE(world.call("CreateTrainingJob", request_of("job")).status == 200);
    world.report(0, 1, {plan::PhaseChanged{plan::Phase::training, ""}});
    REQUIRE(world.wait_for("job", jobs::Secondary::training));
    CHECK(world.call("StopTrainingJob", named("job")).status == 200);
    CHECK(world.call("StopTrainingJob", named("job")).status == 200);
    CHECK(world.call("DescribeTrainingJob", named("job")).body["TrainingJobStatus"] == "Stopping");
    CHECK(world.call("DeleteTrainingJob", named("job")).type() == "ResourceInUse");
}

TEST_CASE("tags are kept by the ARN of a job") {
    World world;
    const std::string arn =
        world.call("CreateTrainingJob", request_of("job")).body["TrainingJobArn"];
    Json request = Json::object();
    request["ResourceArn"] = arn;
    CHECK(dump_json(world.call("ListTags", request).body) ==
          R"({"Tags":[{"Key":"team","Value":"vision"}]})");
    request["Tags"] = parse_json(R"([{"Key":"team","Value":"nlp"},{"Key":"cost","Value":""}])");
    CHECK(world.call("AddTags", request).body["Tags"].size() == 2);
    request.erase("Tags");
    request["TagKeys"] = Json::array({"team"});
    CHECK(world.call("DeleteTags", request).status == 200);
    request.erase("TagKeys");
    CHECK(dump_json(world.call("ListTags", request).body) ==
          R"({"Tags":[{"Key":"cost","Value":""}]})");

    request["Tags"] = parse_json(R"([{"Key":"aws:x","Value":""}])");
    CHECK(world.call("AddTags", request).message().starts_with("aws: prefixed tag key names"));
    request["Tags"] = parse_json(R"([{"Key":"x","Value":""},{"Key":"x","Value":"2"}])");
    CHECK(world.call("AddTags", request).message() == "Duplicate tag keys are not allowed: x");
    request["ResourceArn"] = arn + "-other";
    request["Tags"] = Json::array();
    CHECK(world.call("AddTags", request).message() == "Requested resource not found.");
    request["ResourceArn"] = "arn:aws:sagemaker:us-east-1:000000000000:model/m";
    CHECK(world.call("AddTags", request).type() == "ValidationException");
}

TEST_CASE("listing filters, sorts and pages") {
    World world;
    for (const char* name : {"alpha", "beta", "gamma"})
        REQUIRE(world.call("CreateTrainingJob", request_of(name)).status == 200);
    const auto names = [&](const Json& request) {
        std::string joined;
        const Json page = world.call("ListTrainingJobs", request).body;
        for (const Json& row : page["TrainingJobSummaries"])
            joined += row["TrainingJobName"].get<std::string>() + " ";
        return joined;
    };
    CHECK(names(Json::object()) == "gamma beta alpha ");
    CHECK(names(parse_json(R"({"SortBy":"Name"})")) == "alpha beta gamma ");
    CHECK(names(parse_json(R"({"SortBy":"CreationTime","SortOrder":"Ascending"})")) ==
          "alpha beta gamma ");
    CHECK(names(parse_json(R"({"NameContains":"ET"})")) == "beta ");
    CHECK(names(parse_json(R"({"StatusEquals":"InProgress"})")) == "gamma beta alpha ");
    CHECK(names(parse_json(R"({"StatusEquals":"Failed"})")) == "");
    CHECK(names(parse_json(R"({"WarmPoolStatusEquals":"Available"})")) == "");
    CHECK(names(parse_json(R"({"CreationTimeAfter":4102444800})")) == "");

    Json request = parse_json(R"({"MaxResults":2})");
    const Json first = world.call("ListTrainingJobs", request).body;
    REQUIRE(first.contains("NextToken"));
    request["NextToken"] = first["NextToken"];
    const Json second = world.call("ListTrainingJobs", request).body;
    CHECK(second["TrainingJobSummaries"].size() == 1);
    CHECK_FALSE(second.contains("NextToken"));
    CHECK(world.call("ListTrainingJobs", parse_json(R"({"NextToken":"forged"})")).type() ==
          "ValidationException");
    CHECK(world.call("ListTrainingJobs", parse_json(R"({"StatusEquals":"Done","MaxResults":0})"))
              .message()
              .starts_with("2 validation errors detected: "));
}

TEST_CASE("search finds jobs by expression, with their tags, in pages") {
    World world;
    for (const char* name : {"alpha", "beta", "gamma"})
        REQUIRE(world.call("CreateTrainingJob", request_of(name)).status == 200);
    Json request =
        parse_json(R"({"Resource":"TrainingJob","SortBy":"TrainingJobName","SortOrder":"Ascending",
        "SearchExpression":{"Filters":[{"Name":"Tags.team","Operator":"Equals","Value":"vision"},
                                       {"Name":"TrainingJobName","Operator":"NotEquals","Value":"beta"}]}})");
    const Json all = world.call("Search", request).body;
    REQUIRE(all["Results"].size() == 2);
    CHECK(all["Results"][0]["TrainingJob"]["TrainingJobName"] == "alpha");
    CHECK(all["Results"][1]["TrainingJob"]["Tags"][0]["Key"] == "team");
    CHECK(all["TotalHits"]["Value"] == 2);
    std::vector<std::string> unknown;
    shape::read<shapes::SearchResponse>(all, &unknown);
    CHECK(unknown.empty());

    request["MaxResults"] = 1;
    const Json page = world.call("Search", request).body;
    request["NextToken"] = page["NextToken"];
    CHECK(world.call("Search", request).body["Results"][0]["TrainingJob"]["TrainingJobName"] ==
          "gamma");
    request["NextToken"] = "forged!";
    CHECK(world.call("Search", request).type() == "ValidationException");
    CHECK(world.call("Search", parse_json(R"({"Resource":"Endpoint"})"))
              .message()
              .ends_with("only TrainingJob can be searched"));
}

TEST_CASE("an update is recorded and described") {
    World world;
    REQUIRE(world.call("CreateTrainingJob", request_of("job")).status == 200);
    Json update = named("job");
    update["ProfilerConfig"] = parse_json(R"({"DisableProfiler":true})");
    update["ResourceConfig"] = parse_json(R"({"KeepAlivePeriodInSeconds":60})");
    update["RemoteDebugConfig"] = parse_json(R"({"EnableRemoteDebug":true})");
    CHECK(world.call("UpdateTrainingJob", update).status == 200);
    const Json job = world.call("DescribeTrainingJob", named("job")).body;
    CHECK(job["ProfilerConfig"]["DisableProfiler"] == true);
    CHECK(job["ProfilingStatus"] == "Disabled");
    CHECK(job["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 60);
    CHECK(job["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge");
    CHECK(job["RemoteDebugConfig"]["EnableRemoteDebug"] == true);
}

TEST_CASE("accepted oddities are said in the job") {
    World world;
    Json request = request_of("job");
    request["AlgorithmSpecification"]["TrainingInputMode"] = "FastFile";
    request["EnableManagedSpotTraining"] = true;
    request["StoppingCondition"]["MaxWaitTimeInSeconds"] = 100;
    REQUIRE(world.call("CreateTrainingJob", request).status == 200);
    const auto job = world.jobs.find("us-east-1", "job");
    CHECK(job->spec.warning ==
          "FastFile input is copied before the start, as File; managed spot training without "
          "CheckpointConfig: an interruption starts the program over from nothing");
    CHECK(job->spec.node.warnings.size() == 2);
    const Json described = world.call("DescribeTrainingJob", named("job")).body;
    CHECK(described["SecondaryStatusTransitions"][0]["StatusMessage"].get<std::string>().find(
              "managed spot training without CheckpointConfig") != std::string::npos);
    CHECK(described["EnableManagedSpotTraining"] == true);
    CHECK(described["StoppingCondition"]["MaxWaitTimeInSeconds"] == 100);
}
