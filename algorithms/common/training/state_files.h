// SPDX-License-Identifier: Apache-2.0
// The files of training states: their names, what is in them, and which ones stay. Used by
// StateKeeper only.
#pragma once

#include "common/files/tensors.h"
#include "common/training/state.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace alg {

/// state-000001200.pt
fs::path state_file(const fs::path& folder, std::int64_t update);

struct StateFile {
    fs::path path;
    std::int64_t update;
};
/// Newest (highest update) first. An absent folder has none.
std::vector<StateFile> state_files(const fs::path& folder);

/// What one file holds.
struct State {
    Position position;
    std::int64_t steps = 0;  ///< of the optimiser
    NamedTensors model, optimizer;
};
Value encode(const State& state);
/// Throws Failure when it is no training state.
State decode(const Value& value);

/// Position as bytes, for other ranks.
std::string pack(const Position& position);
Position unpack(const std::string& bytes);

/// Removes all states but the newest `keep` of those at or before `update`, which has just become
/// durable, and those of `damaged`. Never throws: what cannot be removed stays.
void remove_old_states(const fs::path& folder, std::int64_t update, int keep,
                       const std::set<fs::path>& damaged);

}  // namespace alg
