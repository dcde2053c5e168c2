// SPDX-License-Identifier: Apache-2.0
// What AWS's API has no field for and clients ask for by tags or hyperparameters: elastic ranges,
// how many checkpoints are kept, which one to start from.
#pragma once

#include "api/sagemaker/findings.h"
#include "plan/plan.h"
#include "shapes/shapes.h"

#include <optional>
#include <string>

namespace ty::api::sagemaker {

inline constexpr std::string_view kElasticTag = "trainyard:elastic";
inline constexpr std::string_view kElasticHyperparameter = "trainyard_elastic";
inline constexpr std::string_view kKeptTag = "trainyard:checkpoints-kept";
inline constexpr std::string_view kResumeTag = "trainyard:resume-from";

/// The most instances a job may have.
inline constexpr std::int64_t kMostInstances = 100;

/// "1:4" or "1:4:restarts" of the tag or the hyperparameter, where quotes around the text are
/// dropped (SDK estimators write hyperparameters as JSON). nullopt when the job is not to be
/// elastic, or the text makes no sense: then a finding says why.
std::optional<plan::Elastic> elastic_of(const shapes::CreateTrainingJobRequest& request,
                                        Findings& findings);

/// Tags that concern checkpoints, in `checkpoint`.
void apply_checkpoint_tags(const shapes::CreateTrainingJobRequest& request,
                           plan::Checkpoint& checkpoint, Findings& findings);
/// True when the request carries such a tag.
bool has_checkpoint_tags(const shapes::CreateTrainingJobRequest& request);

}  // namespace ty::api::sagemaker
