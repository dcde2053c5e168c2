// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/rules.h"

#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api::sagemaker;

namespace {

Json sound() {
    return parse_json(R"({
        "TrainingJobName":"job","RoleArn":"arn:aws:iam::000000000000:role/r",
        "AlgorithmSpecification":{"TrainingImage":"img","TrainingInputMode":"File"},
        "InputDataConfig":[{"ChannelName":"train","DataSource":{"S3DataSource":
            {"S3DataType":"S3Prefix","S3Uri":"s3://b/p"}}}],
        "OutputDataConfig":{"S3OutputPath":"s3://b/o"},
        "ResourceConfig":{"InstanceType":"ml.m5.xlarge","InstanceCount":1,"VolumeSizeInGB":30},
        "StoppingCondition":{"MaxRuntimeInSeconds":60}})");
}

std::string problems_of(const Json& json) {
    const auto request = shape::read<shapes::CreateTrainingJobRequest>(json);
    auto problems = shape::check(request);
    for (auto& problem : find_missing(request)) problems.push_back(problem);
    if (problems.empty()) problems = find_contradictions(request);
    return problems.empty() ? "" : shape::violation_text(problems);
}

}  // namespace

TEST_CASE("a sound request has no problems") {
    CHECK(problems_of(sound()) == "");
    Json bare = sound();
    bare.erase("InputDataConfig");
    CHECK(problems_of(bare) == "");
}

TEST_CASE("all constraint violations of a request come at once in the service's words") {
    Json bad = sound();
    bad["TrainingJobName"] = "a_b";
    bad["ResourceConfig"]["InstanceType"] = "local";
    bad["ResourceConfig"]["InstanceCount"] = 0;
    bad.erase("StoppingCondition");
    const std::string text = problems_of(bad);
    CHECK(
        text.starts_with("4 validation errors detected: Value 'a_b' at 'trainingJobName' failed to "
                         "satisfy constraint: "
                         "Member must satisfy regular expression pattern: "
                         "^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}; Value 'local' "
                         "at 'resourceConfig.instanceType' failed to satisfy constraint: Member "
                         "must satisfy enum value "
                         "set: [ml.m4.xlarge, "));
    CHECK(
        text.ends_with("]; Value null at 'stoppingCondition' failed to satisfy constraint: Member "
                       "must not be null; "
                       "Value '0' at 'resourceConfig.instanceCount' failed to satisfy constraint: "
                       "Member must have "
                       "value greater than or equal to 1"));
}

TEST_CASE("members the model calls optional are still demanded") {
    Json bad = sound();
    bad.erase("AlgorithmSpecification");
    bad["ResourceConfig"] = Json::object();
    CHECK(
        problems_of(bad) ==
        "3 validation errors detected: Value null at 'algorithmSpecification' failed to satisfy "
        "constraint: Member must not be null; Value null at 'resourceConfig.instanceType' failed "
        "to "
        "satisfy constraint: Member must not be null; Value null at 'resourceConfig.instanceCount' "
        "failed to satisfy constraint: Member must not be null");
}

TEST_CASE("an empty list of channels is a violation, no list is none") {
    Json bad = sound();
    bad["InputDataConfig"] = Json::array();
    CHECK(problems_of(bad) ==
          "1 validation error detected: Value '[]' at 'inputDataConfig' failed to "
          "satisfy constraint: Member must have length greater than or equal to 1");
}

TEST_CASE("contradictions between fields are found") {
    Json json = sound();
    json["AlgorithmSpecification"]["AlgorithmName"] = "other";
    CHECK(problems_of(json).find("both TrainingImage and AlgorithmName") != std::string::npos);

    json = sound();
    json["AlgorithmSpecification"].erase("TrainingImage");
    CHECK(problems_of(json).find("needs a TrainingImage") != std::string::npos);

    json = sound();
    json["InputDataConfig"].push_back(json["InputDataConfig"][0]);
    CHECK(problems_of(json).find("\"train\" is used twice") != std::string::npos);

    json = sound();
    json["InputDataConfig"][0]["DataSource"] = Json::object();
    CHECK(problems_of(json).find("exactly one of S3DataSource") != std::string::npos);

    json = sound();
    json["InputDataConfig"][0]["ChannelName"] = "..";
    CHECK(problems_of(json).find("cannot be the name of a channel") != std::string::npos);

    json = sound();
    json["AlgorithmSpecification"]["MetricDefinitions"] =
        parse_json(R"j([{"Name":"loss","Regex":"(a)"},{"Name":"loss","Regex":"(b)"}])j");
    CHECK(problems_of(json).find("\"loss\" is defined twice") != std::string::npos);
}

TEST_CASE("spot training needs a waiting time that covers the running time") {
    Json json = sound();
    json["EnableManagedSpotTraining"] = true;
    CHECK(problems_of(json).find("MaxWaitTimeInSeconds must be given") != std::string::npos);
    json["StoppingCondition"]["MaxWaitTimeInSeconds"] = 59;
    CHECK(problems_of(json).find("greater than or equal to MaxRuntimeInSeconds (59 < 60)") !=
          std::string::npos);
    json["StoppingCondition"]["MaxWaitTimeInSeconds"] = 60;
    CHECK(problems_of(json) == "");
    json["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 60;
    CHECK(problems_of(json).find("KeepAlivePeriodInSeconds cannot be given") != std::string::npos);
}

TEST_CASE("a waiting time without spot is accepted") {
    Json json = sound();
    json["StoppingCondition"]["MaxWaitTimeInSeconds"] = 1;
    CHECK(problems_of(json) == "");
}

namespace {

Json grouped() {
    Json json = sound();
    json["ResourceConfig"] = parse_json(R"({"InstanceGroups":[
        {"InstanceGroupName":"big","InstanceType":"ml.m5.xlarge","InstanceCount":1},
        {"InstanceGroupName":"small","InstanceType":"ml.m5.large","InstanceCount":2}]})");
    return json;
}

bool says(const Json& json, std::string_view part) {
    const std::string text = problems_of(json);
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("instance groups have names and instances of their own") {
    CHECK(problems_of(grouped()) == "");
    Json json = grouped();
    json["ResourceConfig"]["InstanceCount"] = 1;
    says(json, "InstanceGroups cannot be given together");
    json = grouped();
    json["ResourceConfig"]["InstanceGroups"][1]["InstanceGroupName"] = "big";
    says(json, "instance group name \"big\" is used twice");
    json = grouped();
    json["ResourceConfig"]["InstanceGroups"][1]["InstanceCount"] = 0;
    says(json, "instance group \"small\" has no instances");
    json["ResourceConfig"]["InstanceGroups"][1]["InstanceCount"] = 100;
    says(json, "at most 100 instances in all its groups");
    json = grouped();
    for (int i = 0; i < 4; ++i)
        json["ResourceConfig"]["InstanceGroups"].push_back(
            json["ResourceConfig"]["InstanceGroups"][0]);
    says(json, "instanceGroups");
}

TEST_CASE("a channel is for every instance group or for none in particular") {
    Json json = grouped();
    Json& source = json["InputDataConfig"][0]["DataSource"]["S3DataSource"];
    source["InstanceGroupNames"] = Json::array({"small", "big"});
    CHECK(problems_of(json) == "");
    source["InstanceGroupNames"] = Json::array({"small"});
    says(json, "\"train\" is for some of the instance groups only");
    source["InstanceGroupNames"] = Json::array({"tiny"});
    says(json, "instance group \"tiny\", which ResourceConfig does not have");
    Json plain = sound();
    plain["InputDataConfig"][0]["DataSource"]["S3DataSource"]["InstanceGroupNames"] =
        Json::array({"big"});
    says(plain, "instance group \"big\", which ResourceConfig does not have");
}

TEST_CASE("an elastic range holds the number of instances it starts with") {
    Json json = sound();
    json["Tags"] = parse_json(R"([{"Key":"trainyard:elastic","Value":"1:4"}])");
    CHECK(problems_of(json) == "");
    json["ResourceConfig"]["InstanceCount"] = 5;
    says(json,
         "InstanceCount 5 is what the elastic job starts with and lies outside its range 1:4");
    json["ResourceConfig"]["InstanceCount"] = 1;
    json["Tags"][0]["Value"] = "2:4:0";
    says(json,
         "InstanceCount 1 is what the elastic job starts with and lies outside its range 2:4");
    Json groups = grouped();
    groups["Tags"] = json["Tags"];
    says(groups, "An elastic job has instances of one kind");
    for (const char* text : {"", "4", "4:1", "0:4", "1:101", "1:4:-1", "1:x", "1:4:3:2", "a:b"}) {
        json["Tags"][0]["Value"] = text;
        says(json, "write \"min:max\" or \"min:max:restarts\"");
    }
}

TEST_CASE("an elastic range may come as a hyperparameter, as estimators write it") {
    Json json = sound();
    json["HyperParameters"]["trainyard_elastic"] = "\"1:4\"";
    CHECK(problems_of(json) == "");
    json["Tags"] = parse_json(R"([{"Key":"trainyard:elastic","Value":"1:4"}])");
    CHECK(problems_of(json) == "");
    json["Tags"][0]["Value"] = "1:3";
    says(json,
         "The tag trainyard:elastic is \"1:3\" and the hyperparameter trainyard_elastic is "
         "\"1:4\": give one of them");
}
