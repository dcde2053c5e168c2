// SPDX-License-Identifier: Apache-2.0
// The three configuration files of /opt/ml/input/config, and the tree around them.
#pragma once

#include "agent/contract/layout.h"
#include "plan/plan.h"

#include <string>

namespace ty::agent {

/// Name to text, in order of arrival.
std::string hyperparameters_json(const plan::NodePlan& plan);
/// One member per channel; FastFile is written as File.
std::string input_data_config_json(const plan::NodePlan& plan);
/// Flat and small: C code in MPI images reads it with a fixed token limit.
std::string resource_config_json(const plan::NodePlan& plan, const std::string& network_interface);

/// The folders a container finds, and the three files. Never output/intermediate: its presence
/// switches the toolkit's own synchronisation off. Idempotent.
void write_ml_tree(const HostPaths& paths, const plan::NodePlan& plan,
                   const std::string& network_interface);

}  // namespace ty::agent
