// SPDX-License-Identifier: Apache-2.0
// The instances of a job: how many, of which types, in which groups, with how many of this
// machine's GPUs.
#pragma once

#include "api/api.h"
#include "api/sagemaker/findings.h"
#include "shapes/shapes.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::api::sagemaker {

struct Cluster {
    int instances = 1;                        ///< of all groups
    std::string instance_type;                ///< of the first group
    std::vector<plan::InstanceGroup> groups;  ///< empty: the request has none
    int gpus = 0;                             ///< of each instance
};

/// Findings: a type without a place on this machine, more GPUs over all instances than there are
/// (at an elastic job's maximum), groups that differ in GPUs. Warnings: types mapped to the CPU.
Cluster cluster_of(const shapes::ResourceConfig& resources,
                   const std::optional<plan::Elastic>& elastic, const Settings& settings,
                   Findings& findings, std::vector<std::string>& warnings);

}  // namespace ty::api::sagemaker
