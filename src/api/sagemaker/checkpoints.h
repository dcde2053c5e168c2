// SPDX-License-Identifier: Apache-2.0
// CheckpointConfig: where a job's checkpoints lie, on its hosts and in object storage, and what
// neither place may be.
#pragma once

#include "api/api.h"
#include "api/sagemaker/findings.h"
#include "shapes/shapes.h"

#include <optional>
#include <span>
#include <string>

namespace ty::api::sagemaker {

/// True for a URI of Google's storage, which the service's own pattern does not know.
bool is_google_uri(std::string_view uri);

/// Against this machine's buckets and settings, the environment, channels and results of `node`.
/// nullopt when the request has no CheckpointConfig, or one that findings were added for.
std::optional<plan::Checkpoint> checkpoint_of(const shapes::CreateTrainingJobRequest& request,
                                              const Services& services, const plan::NodePlan& node,
                                              Findings& findings);

/// `path` without doubled slashes, "." and a slash at the end. Throws invalid: not absolute, with
/// "..", or a place that a training program needs otherwise; `environment` names further ones.
std::string checked_local_path(const std::string& path, const plan::Environment& environment);

}  // namespace ty::api::sagemaker
