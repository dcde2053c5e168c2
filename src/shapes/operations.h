// SPDX-License-Identifier: Apache-2.0
// All operations of the SageMaker API by name, and the wire structures of those Trainyard serves.
#pragma once

#include "base/shape.h"

#include <span>
#include <string_view>

namespace ty::shapes {

struct Operation {
    std::string_view name;
    const shape::Type* input;
    const shape::Type* output;  ///< nullptr: answered by an empty body
};

/// Every operation of the model, sorted; most are not served.
std::span<const std::string_view> operation_names();
/// Those whose structures are in this module, sorted by name.
std::span<const Operation> served_operations();

}  // namespace ty::shapes
