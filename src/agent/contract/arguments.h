// SPDX-License-Identifier: Apache-2.0
// Hyperparameters as the training toolkit splits and spells them: command line arguments for the
// user's program, settings for itself.
#pragma once

#include "agent/contract/python_value.h"
#include "plan/plan.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

using PythonMembers = std::vector<std::pair<std::string, PythonValue>>;

struct Hyperparameters {
    PythonMembers user;       ///< for the program, sorted by name
    PythonMembers framework;  ///< sagemaker_*, _tuning_objective_metric, trainyard_elastic; sorted
    const PythonValue* find_framework(std::string_view name) const;
    /// str() of a framework setting; nullopt when absent.
    std::optional<std::string> framework_text(std::string_view name) const;
    /// Given and true in Python's eyes as the toolkit tests it: true, "true", a number but 0.
    bool framework_flag(std::string_view name) const;
};

Hyperparameters split_hyperparameters(const plan::Pairs& hyperparameters);

/// {"--batch-size", "64", "-n", "3", …}: sorted by name, one value per name.
std::vector<std::string> to_arguments(const PythonMembers& user);

/// The text as one word of a POSIX shell command.
std::string shell_quote(const std::string& text);

}  // namespace ty::agent
