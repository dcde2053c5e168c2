// SPDX-License-Identifier: Apache-2.0
// What a request says of many instances, checkpoints, spot and elastic ranges, as the job gets it.
#include "api/sagemaker/checkpoints.h"
#include "api/sagemaker/rules.h"
#include "api/sagemaker/translate.h"
#include "api/testing.h"
#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api;
using namespace ty::api::sagemaker;
using namespace std::chrono_literals;

namespace {

/// Requests over a store with the bucket "data" and an image "shell:1" that needs nothing.
struct Counter {
    Counter() {
        images::Definition definition;
        definition.name = "shell";
        definition.match = {"shell:*"};
        definition.toolkit = false;
        definition.readable = {"/opt/venv"};
        images.emplace(std::vector{definition}, std::vector<std::string>{});
        desk.objects.create_bucket("data", "us-east-1");
        bool done = false;
        desk.objects.put("data", "in/1.txt", {}, [&](std::span<std::byte> into) -> std::size_t {
            if (done) return 0;
            done = true;
            into[0] = std::byte{'x'};
            return 1;
        });
    }

    jobs::JobSpec translate(const Json& json) {
        const auto request = shape::read<shapes::CreateTrainingJobRequest>(json);
        Services services{desk.jobs, desk.objects, desk.logs, desk.metrics, desk.tap,
                          *images,   desk.clock,   desk.ids,  settings};
        return job_spec_of(request, services, "us-east-1", {});
    }
    std::string refusal(const Json& json) {
        try {
            translate(json);
        } catch (const Error& error) {
            CHECK(error.code() == Code::invalid);
            return error.message();
        }
        return "accepted";
    }

    testing::Desk desk;
    std::optional<images::Catalogue> images;
    Settings settings;
};

Json sound() {
    return parse_json(R"({
        "TrainingJobName":"job","RoleArn":"arn:aws:iam::000000000000:role/r",
        "AlgorithmSpecification":{"TrainingImage":"shell:1","TrainingInputMode":"File"},
        "InputDataConfig":[{"ChannelName":"train","DataSource":{"S3DataSource":
            {"S3DataType":"S3Prefix","S3Uri":"s3://data/in"}}}],
        "OutputDataConfig":{"S3OutputPath":"s3://data/out"},
        "ResourceConfig":{"InstanceType":"ml.m5.xlarge","InstanceCount":1,"VolumeSizeInGB":30},
        "StoppingCondition":{"MaxRuntimeInSeconds":60}})");
}

Json with_checkpoints(const std::string& uri, const std::string& path = {}) {
    Json json = sound();
    json["CheckpointConfig"]["S3Uri"] = uri;
    if (!path.empty()) json["CheckpointConfig"]["LocalPath"] = path;
    return json;
}

bool has(const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("instances are counted, and groups number their hosts in order") {
    Counter counter;
    Json json = sound();
    json["ResourceConfig"]["InstanceCount"] = 12;
    CHECK(counter.translate(json).instance_count == 12);
    CHECK(counter.translate(json).node.groups.empty());

    json["ResourceConfig"] = parse_json(R"({"InstanceGroups":[
        {"InstanceGroupName":"big","InstanceType":"ml.m5.xlarge","InstanceCount":1},
        {"InstanceGroupName":"small","InstanceType":"ml.m5.large","InstanceCount":10}]})");
    const jobs::JobSpec spec = counter.translate(json);
    CHECK(spec.instance_count == 11);
    REQUIRE(spec.node.groups.size() == 2);
    CHECK(spec.node.groups[0].hosts == std::vector<std::string>{"algo-1"});
    CHECK(spec.node.groups[1].name == "small");
    CHECK(spec.node.groups[1].instance_type == "ml.m5.large");
    CHECK(spec.node.groups[1].hosts ==
          std::vector<std::string>{"algo-10", "algo-11", "algo-2", "algo-3", "algo-4", "algo-5",
                                   "algo-6", "algo-7", "algo-8", "algo-9"});
}

TEST_CASE("GPUs are counted over all instances") {
    Counter counter;
    counter.settings.host_gpus = 4;
    Json json = sound();
    json["ResourceConfig"]["InstanceType"] = "ml.p3.2xlarge";
    json["ResourceConfig"]["InstanceCount"] = 4;
    CHECK(counter.translate(json).node.gpus == 1);
    json["ResourceConfig"]["InstanceCount"] = 5;
    has(counter.refusal(json), "5 x ml.p3.2xlarge need 5 GPUs together and this machine has 4");
    json["ResourceConfig"]["InstanceCount"] = 2;
    json["Tags"] = parse_json(R"([{"Key":"trainyard:elastic","Value":"1:6"}])");
    has(counter.refusal(json), "6 x ml.p3.2xlarge need 6 GPUs together");
    json["ResourceConfig"]["InstanceType"] = "ml.p3.16xlarge";
    has(counter.refusal(json),
        "The instance type ml.p3.16xlarge needs 8 GPUs and this machine has 4");
    counter.settings.instance_map["ml.p3.16xlarge"] = "cpu";
    CHECK(counter.translate(json).node.gpus == 0);

    json = sound();
    json["ResourceConfig"] = parse_json(R"({"InstanceGroups":[
        {"InstanceGroupName":"a","InstanceType":"ml.p3.2xlarge","InstanceCount":1},
        {"InstanceGroupName":"b","InstanceType":"ml.m5.large","InstanceCount":1}]})");
    has(counter.refusal(json), "different numbers of GPUs");
    counter.settings.instance_map["ml.p3.2xlarge"] = "cpu";
    CHECK(counter.translate(json).instance_count == 2);
}

TEST_CASE("an elastic job knows its range, its program does not") {
    Counter counter;
    Json json = sound();
    CHECK_FALSE(counter.translate(json).node.elastic.has_value());
    json["HyperParameters"] = parse_json(R"j({"a":"1","trainyard_elastic":"\"1:4:7\"","b":"2"})j");
    const jobs::JobSpec spec = counter.translate(json);
    REQUIRE(spec.node.elastic.has_value());
    CHECK(spec.node.elastic->min_nodes == 1);
    CHECK(spec.node.elastic->max_nodes == 4);
    CHECK(spec.node.elastic->max_restarts == 7);
    CHECK(spec.node.elastic->token.empty());
    CHECK(spec.node.hyperparameters == plan::Pairs{{"a", "1"}, {"b", "2"}});
}

TEST_CASE("waiting is limited for spot jobs only, retries for all") {
    Counter counter;
    Json json = sound();
    json["StoppingCondition"]["MaxWaitTimeInSeconds"] = 90;
    json["RetryStrategy"]["MaximumRetryAttempts"] = 3;
    CHECK_FALSE(counter.translate(json).max_wait.has_value());
    CHECK(counter.translate(json).retries == 3);
    CHECK(counter.translate(json).warning.empty());
    json["EnableManagedSpotTraining"] = true;
    const jobs::JobSpec spec = counter.translate(json);
    CHECK(spec.spot);
    CHECK(spec.max_wait == 90s);
    has(spec.warning, "an interruption starts the program over from nothing");
    json["CheckpointConfig"]["S3Uri"] = "s3://data/ckpt";
    CHECK(counter.translate(json).warning.empty());
}

TEST_CASE("checkpoints have a place on the hosts and one in storage") {
    Counter counter;
    const auto plain = counter.translate(with_checkpoints("S3://data/ckpt//"));
    REQUIRE(plain.node.checkpoint.has_value());
    CHECK(plain.node.checkpoint->uri == "s3://data/ckpt");
    CHECK(plain.node.checkpoint->local_path == "/opt/ml/checkpoints");
    CHECK(plain.node.checkpoint->keep == 3);
    CHECK(plain.node.checkpoint->resume.empty());
    CHECK(plain.node.checkpoint->endpoint.empty());

    Json json = with_checkpoints("s3://data/out/mine/checkpoints", "/test//./checkpoint/path/");
    json["Tags"] = parse_json(R"([{"Key":"trainyard:checkpoints-kept","Value":"5"},
        {"Key":"trainyard:resume-from","Value":"000001-000000002-000000003-algo-1"}])");
    const auto tagged = counter.translate(json);
    CHECK(tagged.node.checkpoint->local_path == "/test/checkpoint/path");
    CHECK(tagged.node.checkpoint->keep == 5);
    CHECK(tagged.node.checkpoint->resume == "000001-000000002-000000003-algo-1");
    json["Tags"][0]["Value"] = "0";
    json["Tags"][1]["Value"] = "../x";
    const std::string text = counter.refusal(json);
    has(text, "The tag trainyard:checkpoints-kept is \"0\": write a whole number from 1 to 1000");
    has(text, "The tag trainyard:resume-from is \"../x\", which is no id of a checkpoint");
    json.erase("CheckpointConfig");
    has(counter.translate(json).warning, "no effect without CheckpointConfig");
}

TEST_CASE("checkpoints do not hold results or inputs, and their bucket exists") {
    Counter counter;
    has(counter.refusal(with_checkpoints("s3://nowhere/ckpt")),
        "The bucket \"nowhere\" of CheckpointConfig.S3Uri \"s3://nowhere/ckpt\" does not exist");
    for (const char* uri : {"s3://data/out", "s3://data/out/", "s3://data", "s3://data/out/job",
                            "s3://data/out/job/output", "s3://data/out/job/output/model"})
        has(counter.refusal(with_checkpoints(uri)), "and S3OutputPath \"s3://data/out\"");
    Json json = with_checkpoints("s3://data/in");
    has(counter.refusal(json), "holds the input \"s3://data/in\" of channel \"train\"");
    CHECK(counter.refusal(with_checkpoints("s3://data/in/ckpt")) == "accepted");
    CHECK(counter.refusal(with_checkpoints("s3://data/output")) == "accepted");
    CHECK(counter.refusal(with_checkpoints("s3://data/out/jobs")) == "accepted");
}

TEST_CASE("folders that a program needs otherwise are no place for checkpoints") {
    plan::Environment environment;
    environment.name = "pytorch";
    environment.readable = {"/srv/venv"};
    const auto refusal = [&](const std::string& path) -> std::string {
        try {
            return "accepted " + checked_local_path(path, environment);
        } catch (const Error& error) {
            return error.message();
        }
    };
    for (const char* path : {"/opt/ml/checkpoints", "/test/checkpoint/path", "/tmp/x", "/root/ckpt",
                             "/opt/ml/output/ckpt", "/usrlocal", "/opt/ml/models"})
        CHECK(refusal(path) == std::string("accepted ") + path);
    has(refusal("checkpoints"), "is not absolute");
    has(refusal(""), "is not absolute");
    has(refusal("/a/../b"), "has \"..\" in it");
    has(refusal("/"), "is the root of the file system");
    has(refusal("//."), "is the root of the file system");
    has(refusal("/usr/lib/x"), "lies in /usr (the system's programs)");
    has(refusal("/opt/ml"), "holds /opt/ml/input (the input)");
    has(refusal("/opt"), "holds /opt/trainyard");
    has(refusal("/opt/ml/model/x"), "lies in /opt/ml/model");
    has(refusal("/opt/ml/input/data/train"), "lies in /opt/ml/input");
    has(refusal("/srv/venv/lib"), "overlaps /srv/venv, which the environment \"pytorch\" needs");
    has(refusal("/srv"), "overlaps /srv/venv");
    Counter counter;
    has(counter.refusal(with_checkpoints("s3://data/ckpt", "/opt/venv")), "overlaps /opt/venv");
}

TEST_CASE("Google's storage is used where the configuration names it") {
    Counter counter;
    CHECK(is_google_uri("gs://b/x"));
    CHECK_FALSE(is_google_uri("gs://"));
    CHECK_FALSE(is_google_uri("s3://b"));
    has(counter.refusal(with_checkpoints("gs://b/x")),
        "needs Google's storage: set google_endpoint");
    counter.settings.google = {"http://127.0.0.1:8080", {"GOOG1", "secret", ""}};
    const auto spec = counter.translate(with_checkpoints("gs://b/x/"));
    CHECK(spec.node.checkpoint->uri == "gs://b/x");
    CHECK(spec.node.checkpoint->endpoint == "http://127.0.0.1:8080");
    CHECK(spec.node.checkpoint->credentials.access_key == "GOOG1");
}
