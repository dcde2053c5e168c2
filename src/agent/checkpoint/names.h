// SPDX-License-Identifier: Apache-2.0
// What the name of a file says: whether it is meant to be kept, and at which step it was written.
// Private to checkpoint/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ty::agent {

/// The Python helper's state file, in the folder itself; never uploaded.
inline constexpr std::string_view kStateFile = ".trainyard-state.json";

/// Hidden files and folders, and names that programs give to what is not finished: *.tmp, *.temp,
/// *.part, *.partial, *.incomplete, *~.
bool is_left_out(std::string_view path);

/// 1200 from "checkpoint-1200/model.pt", "step=1200.ckpt", "epoch12-step1200.ckpt", "ckpt_1200.pt",
/// a number after "step" wins over others. nullopt when no number is meant.
std::optional<std::int64_t> step_of(std::string_view path);

/// {"step": N, …} of the helper's state file; nullopt when it is anything else.
std::optional<std::int64_t> step_of_state(std::string_view json);

}  // namespace ty::agent
