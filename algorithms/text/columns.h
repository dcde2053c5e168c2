// SPDX-License-Identifier: Apache-2.0
// Which column of a table holds what. Part of the readers.
#pragma once

#include "text/readers.h"

#include <array>
#include <optional>

namespace alg {

/// Columns known by these names where no hyperparameter names them.
inline constexpr std::array kTextNames = {"text",    "sentence",  "review",  "text_a", "sentence1",
                                          "content", "question1", "premise", "comment"};
inline constexpr std::array kSecondNames = {"text_b", "sentence2", "question2", "hypothesis"};
inline constexpr std::array kLabelNames = {"label",    "labels", "class",   "sentiment",
                                           "polarity", "target", "category"};

struct Columns {
    std::size_t text = 0, label = 0, count = 0;
    std::optional<std::size_t> second;
    bool header = false;
};

/// By hyperparameters, else by usual names in the first row, else by what the columns hold. Throws
/// Failure naming the file and the columns there are.
Columns find_columns(const std::vector<std::vector<std::string>>& rows, const ReadOptions& options,
                     const std::string& file);

std::string trimmed(std::string_view text);
std::string lower(std::string_view text);  ///< ASCII, and trimmed

}  // namespace alg
