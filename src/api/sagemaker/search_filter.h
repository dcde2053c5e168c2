// SPDX-License-Identifier: Apache-2.0
// Search expressions over records: does a job, as a JSON document, satisfy filters?
#pragma once

#include "base/json.h"
#include "shapes/shapes.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::api::sagemaker {

/// Throws invalid ("ValidationException"): an operator that needs a value without one.
void check_expression(const shapes::SearchExpression& expression);

/// Filters, nested filters and sub-expressions joined by the expression's operator; an expression
/// without any of them is satisfied by everything.
bool satisfies(const Json& record, const shapes::SearchExpression& expression);

/// Values a property name stands for: "ResourceConfig.InstanceType", "HyperParameters.lr",
/// "Tags.team", "Metrics.loss", "InputDataConfig.ChannelName" (one per element). Empty when absent.
std::vector<const Json*> find_property(const Json& record, std::string_view name);

/// Orders records by a property: numbers as numbers, the rest as text, absent first.
bool comes_before(const Json& a, const Json& b, std::string_view property);

}  // namespace ty::api::sagemaker
