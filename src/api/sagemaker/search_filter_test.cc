// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/search_filter.h"

#include "base/error.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api::sagemaker;

namespace {

Json record() {
    return parse_json(R"({
        "TrainingJobName":"digits-1","TrainingJobStatus":"Completed","CreationTime":1762116564.5,
        "HyperParameters":{"lr":"0.10","a.b":"x","opt":"adam"},
        "ResourceConfig":{"InstanceType":"ml.m5.xlarge","InstanceCount":1},
        "InputDataConfig":[
            {"ChannelName":"train","DataSource":{"S3DataSource":{"S3Uri":"s3://b/one"}}},
            {"ChannelName":"valid","DataSource":{"S3DataSource":{"S3Uri":"s3://b/two"}}}],
        "FinalMetricDataList":[{"MetricName":"val:loss","Value":0.25}],
        "Tags":[{"Key":"team","Value":"vision"},{"Key":"a.b","Value":"dotted"}]})");
}

bool found(std::string_view expression) {
    const auto parsed = shape::read<shapes::SearchExpression>(parse_json(expression));
    CHECK(shape::check(parsed).empty());
    check_expression(parsed);
    return satisfies(record(), parsed);
}

bool filter(const std::string& name, const std::string& op, const std::string& value) {
    Json one = Json::object();
    one["Name"] = name;
    one["Operator"] = op;
    one["Value"] = value;
    Json expression = Json::object();
    expression["Filters"] = Json::array({one});
    return found(dump_json(expression));
}

}  // namespace

TEST_CASE("filters compare text, numbers, times, tags and metrics") {
    CHECK(filter("TrainingJobStatus", "Equals", "Completed"));
    CHECK_FALSE(filter("TrainingJobStatus", "Equals", "Failed"));
    CHECK(filter("TrainingJobStatus", "NotEquals", "Failed"));
    CHECK(filter("TrainingJobName", "Contains", "IGITS"));
    CHECK(filter("ResourceConfig.InstanceCount", "Equals", "1"));
    CHECK(filter("HyperParameters.lr", "LessThan", "0.2"));
    CHECK_FALSE(filter("HyperParameters.lr", "GreaterThan", "0.10"));
    CHECK(filter("HyperParameters.lr", "GreaterThanOrEqualTo", "0.1"));
    CHECK(filter("HyperParameters.lr", "LessThanOrEqualTo", "0.1"));
    CHECK_FALSE(filter("HyperParameters.opt", "GreaterThan", "0"));
    CHECK(filter("HyperParameters.a.b", "Equals", "x"));
    CHECK(filter("CreationTime", "GreaterThan", "2025-11-02T20:49:24Z"));
    CHECK(filter("CreationTime", "LessThan", "2025-11-03"));
    CHECK(filter("Tags.team", "Equals", "vision"));
    CHECK(filter("Tags.a.b", "Equals", "dotted"));
    CHECK_FALSE(filter("Tags.owner", "Equals", "vision"));
    CHECK(filter("Metrics.val:loss", "LessThan", "0.3"));
    CHECK(filter("TrainingJobStatus", "In", "Failed, Completed"));
    CHECK_FALSE(filter("TrainingJobStatus", "In", "Failed,Stopped"));
}

TEST_CASE("existence needs no value") {
    CHECK(found(R"({"Filters":[{"Name":"Tags.team","Operator":"Exists"}]})"));
    CHECK(found(R"({"Filters":[{"Name":"FailureReason","Operator":"NotExists"}]})"));
    CHECK_FALSE(found(R"({"Filters":[{"Name":"FailureReason","Operator":"Exists"}]})"));
    CHECK_THROWS_WITH_AS(found(R"({"Filters":[{"Name":"FailureReason"}]})"),
                         "The filter on FailureReason with operator Equals needs a Value", Error);
}

TEST_CASE("nested filters hold for one and the same element") {
    const auto nested = [](const std::string& channel, const std::string& uri) {
        return found(R"({"NestedFilters":[{"NestedPropertyName":"InputDataConfig","Filters":[
            {"Name":"InputDataConfig.ChannelName","Operator":"Equals","Value":")" +
                     channel + R"("},
            {"Name":"InputDataConfig.DataSource.S3DataSource.S3Uri","Operator":"Contains","Value":")" +
                     uri + R"("}]}]})");
    };
    CHECK(nested("train", "one"));
    CHECK_FALSE(nested("train", "two"));
}

TEST_CASE("terms are joined by and unless the expression says or") {
    const std::string two = R"("Filters":[{"Name":"TrainingJobStatus","Value":"Completed"},
                                          {"Name":"TrainingJobName","Value":"other"}])";
    CHECK_FALSE(found("{" + two + "}"));
    CHECK(found("{" + two + R"(,"Operator":"Or"})"));
    CHECK(found(R"({"Operator":"And","SubExpressions":[{)" + two + R"(,"Operator":"Or"},
        {"Filters":[{"Name":"HyperParameters.opt","Value":"adam"}]}]})"));
    CHECK(satisfies(record(), shapes::SearchExpression{}));
}

TEST_CASE("records are ordered by numbers, then text, and absent comes first") {
    const auto before = [](std::string_view a, std::string_view b) {
        return comes_before(parse_json(a), parse_json(b), "x");
    };
    CHECK(before(R"({"x":"9"})", R"({"x":"10"})"));
    CHECK(before(R"({"x":"a"})", R"({"x":"b"})"));
    CHECK(before("{}", R"({"x":0})"));
    CHECK_FALSE(before("{}", "{}"));
    CHECK(before(R"({"x":5})", R"({"x":"a"})"));
    CHECK_FALSE(before(R"({"x":"a"})", R"({"x":5})"));
}
