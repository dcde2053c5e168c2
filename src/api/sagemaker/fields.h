// SPDX-License-Identifier: Apache-2.0
// What becomes of every field of every request served, as one table. The table refuses fields at
// run time, collects the warnings a job carries, and is printed as the compatibility page: the page
// cannot say anything else than what the code does.
#pragma once

#include "base/error.h"
#include "base/json.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::sagemaker {

enum class Support {
    works,    ///< has the effect it has on AWS
    ignored,  ///< accepted, described as sent, without effect
    warned,   ///< accepted; the job says in its log what is different
    refused,  ///< the request is refused
};

/// When a `warned` or `refused` row applies to a value.
enum class When { always, equals, other_than, above, is_true, not_empty };

struct FieldRule {
    std::string_view operation;
    std::string_view path;  ///< "InputDataConfig[].InputMode"; rows cover everything beneath them
    Support support;
    std::string_view
        note;  ///< what and why, and the remedy; also the text of the refusal or warning
    When when = When::always;
    std::string_view operand;  ///< of equals, other_than and above
};

std::span<const FieldRule> field_rules();

/// Throws invalid ("ValidationException") naming every field of the request that a `refused` row
/// applies to. `request` is the body as received.
void refuse_unsupported(std::string_view operation, const Json& request);
/// As above, as data.
std::vector<Problem> find_unsupported(std::string_view operation, const Json& request);
/// Notes of the `warned` rows that apply.
std::vector<std::string> find_warnings(std::string_view operation, const Json& request);

/// The compatibility page (Markdown) of all services.
std::string compatibility_page();

}  // namespace ty::api::sagemaker
