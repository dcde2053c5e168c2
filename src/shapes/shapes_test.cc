// SPDX-License-Identifier: Apache-2.0
#include "shapes/shapes.h"
#include "base/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace ty;

namespace {

std::set<const shape::Type*> all_types() {
    std::set<const shape::Type*> seen;
    std::vector<const shape::Type*> queue;
    for (const auto& operation : shapes::served_operations()) {
        queue.push_back(operation.input);
        if (operation.output != nullptr) queue.push_back(operation.output);
    }
    while (!queue.empty()) {
        const shape::Type* type = queue.back();
        queue.pop_back();
        if (type == nullptr || !seen.insert(type).second) continue;
        for (const auto& field : type->fields) queue.push_back(field.type);
        queue.push_back(type->key);
        queue.push_back(type->element);
    }
    return seen;
}

/// A value of the type with every member present.
Json sample(const shape::Type& type, int depth = 0) {
    switch (type.kind) {
        case shape::Kind::string:
            return type.values.empty() ? "a" : std::string(type.values[0]);
        case shape::Kind::integer:
            return 3;
        case shape::Kind::number:
            return 0.5;
        case shape::Kind::boolean:
            return true;
        case shape::Kind::timestamp:
            return 1762116564.123;
        case shape::Kind::list:
            return depth > 12 ? Json::array() : Json::array({sample(*type.element, depth + 1)});
        case shape::Kind::map:
            return Json{{"k", sample(*type.element, depth + 1)}};
        case shape::Kind::structure: {
            Json object = Json::object();
            for (const auto& field : type.fields)
                object[std::string(field.name)] = sample(*field.type, depth + 1);
            return object;
        }
    }
    return {};
}

template <typename T>
void round_trip() {
    const Json all = sample(T::kShape);
    std::vector<std::string> unknown;
    CHECK(shape::write(shape::read<T>(all, &unknown)) == all);
    CHECK(unknown.empty());
    CHECK(shape::write(shape::read<T>(Json::object())) == Json::object());
}

}  // namespace

TEST_CASE("every structure reads and writes all of its members") {
    round_trip<shapes::CreateTrainingJobRequest>();
    round_trip<shapes::CreateTrainingJobResponse>();
    round_trip<shapes::DescribeTrainingJobResponse>();
    round_trip<shapes::ListTrainingJobsRequest>();
    round_trip<shapes::ListTrainingJobsResponse>();
    round_trip<shapes::UpdateTrainingJobRequest>();
    round_trip<shapes::StopTrainingJobRequest>();
    round_trip<shapes::DeleteTrainingJobRequest>();
    round_trip<shapes::AddTagsInput>();
    round_trip<shapes::ListTagsOutput>();
    round_trip<shapes::DeleteTagsInput>();
    round_trip<shapes::SearchRequest>();
    round_trip<shapes::SearchResponse>();
}

TEST_CASE("every pattern of the model compiles") {
    std::size_t patterns = 0;
    for (const auto* type : all_types()) {
        if (type->pattern == nullptr) continue;
        INFO(type->name);
        type->pattern->matches("x");
        ++patterns;
    }
    CHECK(patterns > 40);
}

TEST_CASE("tables are complete: containers know their elements and limits are in order") {
    for (const auto* type : all_types()) {
        INFO(type->name);
        const bool container = type->kind == shape::Kind::list || type->kind == shape::Kind::map;
        CHECK((type->element != nullptr) == container);
        CHECK((type->access != nullptr) == container);
        CHECK((type->key != nullptr) == (type->kind == shape::Kind::map));
        if (type->min != shape::kNoLimit && type->max != shape::kNoLimit)
            CHECK(type->min <= type->max);
    }
}

TEST_CASE("patterns match whole values as the service's do") {
    const auto matches = [](const shape::Type& type, std::string_view text) {
        return type.pattern->matches(text);
    };
    CHECK(matches(shapes::types::kTrainingJobName, "a-b-c"));
    CHECK_FALSE(matches(shapes::types::kTrainingJobName, "a_b"));
    CHECK_FALSE(matches(shapes::types::kTrainingJobName, "a-"));
    CHECK_FALSE(matches(shapes::types::kTrainingJobName, "ab\n"));
    CHECK(matches(shapes::types::kRoleArn, "arn:aws:iam::123456789012:role/service-role/Sage"));
    CHECK(matches(shapes::types::kRoleArn, "arn:aws-cn:iam::123456789012:role/x"));
    CHECK_FALSE(matches(shapes::types::kRoleArn, "arn:aws:iam::1234:role/x"));
    CHECK(matches(shapes::types::kS3Uri, "s3://bucket/key"));
    CHECK(matches(shapes::types::kS3Uri, "S3://bucket/key"));
    CHECK(matches(shapes::types::kS3Uri, "https://host/key"));
    CHECK_FALSE(matches(shapes::types::kS3Uri, "/tmp/x"));
    CHECK(matches(shapes::types::kTagValue, "größe 12 = x@y"));
    CHECK_FALSE(matches(shapes::types::kTagValue, "a,b"));
    CHECK(matches(shapes::types::kHyperParameterValue, "\"abc\" [1, 2] 日本"));
    CHECK_FALSE(matches(shapes::types::kHyperParameterValue, "a\nb"));
    CHECK(matches(shapes::types::kArnOrName, "my-algorithm"));
    CHECK_FALSE(matches(shapes::types::kArnOrName, "my-algorithm-"));
}

TEST_CASE("all operations of the service are known by name") {
    const auto names = shapes::operation_names();
    CHECK(names.size() > 390);
    CHECK(std::ranges::is_sorted(names));
    CHECK(std::ranges::binary_search(names, std::string_view("CreateHyperParameterTuningJob")));
    for (const auto& operation : shapes::served_operations())
        CHECK(std::ranges::binary_search(names, operation.name));
    CHECK(shapes::served_operations().size() == 10);
}
