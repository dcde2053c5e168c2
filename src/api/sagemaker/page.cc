// SPDX-License-Identifier: Apache-2.0
// The compatibility page: every operation of every service, and every request field of SageMaker's.
#include "api/coverage.h"
#include "api/sagemaker/fields.h"
#include "base/shape.h"
#include "base/text.h"
#include "shapes/shapes.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

std::string_view words(Support support) {
    switch (support) {
        case Support::works:
            return "supported";
        case Support::ignored:
            return "accepted and ignored";
        case Support::warned:
            return "accepted with a warning";
        case Support::refused:
            return "refused";
    }
    return "";
}

std::string condition(const FieldRule& rule) {
    switch (rule.when) {
        case When::always:
            return "";
        case When::equals:
            return fmt::format(" when `{}`", rule.operand);
        case When::other_than:
            return fmt::format(" unless `{}`", rule.operand);
        case When::above:
            return fmt::format(" above {}", rule.operand);
        case When::is_true:
            return " when true";
        case When::not_empty:
            return " when not empty";
    }
    return "";
}

std::vector<const FieldRule*> rules_of(std::string_view operation, std::string_view path) {
    std::vector<const FieldRule*> rules;
    for (const FieldRule& rule : field_rules())
        if (rule.operation == operation && rule.path == path) rules.push_back(&rule);
    return rules;
}

/// True when a row speaks of a field beneath the path.
bool has_deeper(std::string_view operation, const std::string& path) {
    return std::ranges::any_of(field_rules(), [&](const FieldRule& rule) {
        return rule.operation == operation && rule.path.size() > path.size() &&
               rule.path.starts_with(path) &&
               (rule.path[path.size()] == '.' || rule.path[path.size()] == '[');
    });
}

std::string sentence(std::string_view text) {
    std::string out(text);
    if (!out.empty() && out[0] >= 'a' && out[0] <= 'z')
        out[0] = static_cast<char>(out[0] - 'a' + 'A');
    if (!out.empty() && out.back() != '.') out += '.';
    return out;
}

void add_fields(std::string& page, std::string_view operation, const shape::Type& type,
                const std::string& prefix) {
    for (const shape::Field& field : type.fields) {
        std::string path =
            prefix.empty() ? std::string(field.name) : fmt::format("{}.{}", prefix, field.name);
        const auto rules = rules_of(operation, path);
        if (!rules.empty()) {
            std::vector<std::string> states, notes;
            for (const FieldRule* rule : rules) {
                states.push_back(std::string(words(rule->support)) + condition(*rule));
                if (!rule->note.empty()) notes.push_back(sentence(rule->note));
            }
            page += fmt::format("| `{}` | {} | {} |\n", path, join(states, "; "), join(notes, " "));
        }
        const bool list = field.type->kind == shape::Kind::list;
        const shape::Type& inner = list ? *field.type->element : *field.type;
        if (has_deeper(operation, path))
            add_fields(page, operation, inner, path + (list ? "[]" : ""));
        else if (rules.empty())
            page += fmt::format("| `{}` | not described | |\n", path);
    }
}

void add_services(std::string& page) {
    using Function = std::vector<OperationCoverage> (*)();
    constexpr Function kServices[] = {sagemaker_coverage,  s3_coverage,  logs_coverage,
                                      cloudwatch_coverage, sts_coverage, iam_coverage,
                                      ecr_coverage,        ec2_coverage};
    page +=
        "## Operations\n\n| service | operation | state | what is different |\n|---|---|---|---|\n";
    for (const Function service : kServices)
        for (const OperationCoverage& row : service())
            page += fmt::format("| {} | {} | {} | {} |\n", row.service, row.operation, row.state,
                                row.note);
    page +=
        "\n`full`: as on AWS. `partial`: see the last column. `accepted`: answered, without "
        "effect. "
        "`refused`: a typed error that says so.\n\n";
}

void add_refused(std::string& page) {
    std::vector<std::string> names;
    for (const std::string_view name : shapes::operation_names()) {
        const bool served =
            std::ranges::any_of(shapes::served_operations(),
                                [&](const auto& operation) { return operation.name == name; });
        if (!served) names.push_back(fmt::format("`{}`", name));
    }
    page += fmt::format(
        "## SageMaker operations that are refused\n\nThese {} are known by name and "
        "answered with a `ValidationException` that names them and the operations there "
        "are:\n\n{}.\n",
        names.size(), join(names, ", "));
}

}  // namespace

std::string compatibility_page() {
    std::string page =
        "# Compatibility\n\n"
        "<!-- Generated by `make generate` from the tables the daemon itself runs on; do not edit. "
        "-->\n\n"
        "What Trainyard answers of AWS's APIs, and what becomes of each field of a request. A "
        "field "
        "that is *accepted and ignored* is described as it was sent; one that is *refused* fails "
        "the "
        "request with a `ValidationException` naming it, together with everything else that is "
        "wrong. "
        "A row covers the fields beneath it.\n\n";
    add_services(page);
    for (const shapes::Operation& operation : shapes::served_operations()) {
        page +=
            fmt::format("## Fields of SageMaker {}\n\n| field | state | note |\n|---|---|---|\n",
                        operation.name);
        add_fields(page, operation.name, *operation.input, "");
        page += "\n";
    }
    add_refused(page);
    return page;
}

}  // namespace ty::api::sagemaker
