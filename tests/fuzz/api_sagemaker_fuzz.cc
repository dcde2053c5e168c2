// SPDX-License-Identifier: Apache-2.0
// Any bytes as a CreateTrainingJob request: read, checked, held against the tables and rules, and
// stored; whatever is wrong is an `invalid` error or a list of problems.
#include "api/sagemaker/document.h"
#include "api/sagemaker/fields.h"
#include "api/sagemaker/rules.h"
#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace ty;
    using namespace ty::api::sagemaker;
    constexpr std::string_view kOperation = "CreateTrainingJob";
    try {
        const Json body = parse_json(std::string_view(reinterpret_cast<const char*>(data), size));
        const auto request = shape::read<shapes::CreateTrainingJobRequest>(body);
        auto problems = shape::check(request);
        for (Problem& problem : find_missing(request)) problems.push_back(std::move(problem));
        for (Problem& problem : find_unsupported(kOperation, body))
            problems.push_back(std::move(problem));
        shape::violation_text(problems);
        find_warnings(kOperation, body);
        if (!problems.empty()) return 0;
        find_contradictions(request);
        const Json document = stored_document(request);
        TY_ASSERT(parse_json(dump_json(document)) == document);
    } catch (const Error& error) {
        TY_ASSERT(error.code() == Code::invalid);
    }
    return 0;
}
