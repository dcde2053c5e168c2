// SPDX-License-Identifier: Apache-2.0
// From a CreateTrainingJob request that passed its checks to what running it takes.
#pragma once

#include "api/api.h"
#include "shapes/shapes.h"

#include <string>
#include <vector>

namespace ty::api::sagemaker {

/// "arn:aws:sagemaker:us-east-1:000000000000:training-job/<lower-cased name>".
std::string job_arn(const std::string& region, const std::string& account, const std::string& name);

/// Resolves the image, the instance type and every URI against this machine. `warnings` are joined
/// to those found here. Throws invalid ("ValidationException"): image not mapped, GPU type without
/// GPUs, output bucket missing, input prefix without objects, bad metric definition; all of them at
/// once.
jobs::JobSpec job_spec_of(const shapes::CreateTrainingJobRequest& request, const Services& services,
                          const std::string& region, std::vector<std::string> warnings);

std::vector<telemetry::MetricDefinition> metrics_of(
    const shapes::CreateTrainingJobRequest& request);

}  // namespace ty::api::sagemaker
