// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/fields.h"

#include "base/shape.h"
#include "shapes/shapes.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace ty;
using namespace ty::api::sagemaker;

namespace {

bool covers(const FieldRule& rule, std::string_view operation, const std::string& path) {
    return rule.operation == operation &&
           (rule.path == path || path.starts_with(std::string(rule.path) + ".") ||
            path.starts_with(std::string(rule.path) + "[]"));
}

/// Leaves of a request type as paths of the table; recursion of search expressions is cut.
void collect_leaves(const shape::Type& type, const std::string& prefix, int depth,
                    std::vector<std::string>& leaves, std::set<std::string>& all) {
    for (const auto& field : type.fields) {
        const std::string path = (prefix.empty() ? "" : prefix + ".") + std::string(field.name);
        all.insert(path);
        const bool list = field.type->kind == shape::Kind::list;
        const shape::Type& inner = list ? *field.type->element : *field.type;
        if (inner.kind == shape::Kind::structure && depth < 5)
            collect_leaves(inner, path + (list ? "[]" : ""), depth + 1, leaves, all);
        else
            leaves.push_back(path);
    }
}

std::vector<std::string> messages(std::string_view operation, std::string_view json) {
    std::vector<std::string> texts;
    for (const Problem& problem : find_unsupported(operation, parse_json(json)))
        texts.push_back(problem.message);
    return texts;
}

}  // namespace

TEST_CASE("every field of every request served has a row, and every row names a field") {
    std::set<std::pair<std::string, std::string>> known;
    for (const auto& operation : shapes::served_operations()) {
        std::vector<std::string> leaves;
        std::set<std::string> all;
        collect_leaves(*operation.input, "", 0, leaves, all);
        for (const std::string& leaf : leaves) {
            INFO(operation.name, " ", leaf);
            CHECK(std::ranges::any_of(field_rules(), [&](const FieldRule& rule) {
                return covers(rule, operation.name, leaf);
            }));
        }
        for (const std::string& path : all) known.insert({std::string(operation.name), path});
    }
    for (const FieldRule& rule : field_rules()) {
        INFO(rule.operation, " ", rule.path);
        CHECK(known.contains({std::string(rule.operation), std::string(rule.path)}));
        if (rule.support == Support::refused || rule.support == Support::warned)
            CHECK_FALSE(rule.note.empty());
    }
}

TEST_CASE("a refused field is named with its value, its place and the remedy") {
    CHECK(
        messages("CreateTrainingJob", R"({"ModelPackageConfig":{"ModelPackageGroupArn":"a"}})") ==
        std::vector<std::string>{"'modelPackageConfig' is not supported by Trainyard: there is no "
                                 "model registry; leave it out"});
    CHECK(messages("CreateTrainingJob",
                   R"({"InputDataConfig":[{"InputMode":"File"},{"InputMode":"Pipe"}]})") ==
          std::vector<std::string>{"Value 'Pipe' at 'inputDataConfig.2.member.inputMode' is not "
                                   "supported by Trainyard: pipe mode is not available; use File"});
    CHECK(messages("CreateTrainingJob", R"({"ResourceConfig":{"InstanceCount":101}})").size() == 1);
    CHECK(messages("CreateTrainingJob", R"({"ResourceConfig":{"InstanceCount":100}})").empty());
    CHECK(messages("Search", R"({"Resource":"TrainingJob"})").empty());
    CHECK(messages("Search", R"({"Resource":"Endpoint"})").size() == 1);
}

TEST_CASE("refusals look only at what is there") {
    CHECK(messages("CreateTrainingJob", R"({"ModelPackageConfig":null,"InputDataConfig":"x",
        "ResourceConfig":{"InstanceGroups":[],"InstanceCount":"many"}})")
              .empty());
    CHECK(messages("CreateTrainingJob", "[]").empty());
}

TEST_CASE("all refused fields are named in one error") {
    try {
        refuse_unsupported("CreateTrainingJob", parse_json(R"({"ModelPackageConfig":{},
            "AlgorithmSpecification":{"AlgorithmName":"x"}})"));
        FAIL("did not throw");
    } catch (const Error& error) {
        CHECK(error.reason() == "ValidationException");
        CHECK(error.problems().size() == 2);
        CHECK(error.message().starts_with("2 validation errors detected: "));
    }
    CHECK_NOTHROW(refuse_unsupported("CreateTrainingJob", Json::object()));
}

TEST_CASE("warnings are said once each") {
    const auto notes = find_warnings("CreateTrainingJob", parse_json(R"({
        "AlgorithmSpecification":{"TrainingInputMode":"FastFile"},
        "InputDataConfig":[{"InputMode":"FastFile"},{"InputMode":"FastFile"}],
        "EnableNetworkIsolation":true,"DebugRuleConfigurations":[]})"));
    CHECK(notes == std::vector<std::string>{
                       "FastFile input is copied before the start, as File",
                       "network isolation is recorded but not enforced: the program can reach the "
                       "network"});
}
