// SPDX-License-Identifier: Apache-2.0
// Rules of CreateTrainingJob that tie several fields together, which the model cannot express.
#pragma once

#include "base/error.h"
#include "shapes/shapes.h"

#include <vector>

namespace ty::api::sagemaker {

/// Members the service demands although its model calls them optional (they are absent in
/// serverless jobs), in the words of the model's own violations.
std::vector<Problem> find_missing(const shapes::CreateTrainingJobRequest& request);

/// Contradictions between fields. Precondition: the request passed its shape checks and
/// find_missing.
std::vector<Problem> find_contradictions(const shapes::CreateTrainingJobRequest& request);

}  // namespace ty::api::sagemaker
