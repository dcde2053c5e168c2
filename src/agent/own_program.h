// SPDX-License-Identifier: Apache-2.0
// This very program, shown to what runs in a box: as launcher of an elastic job, as remote shell of
// an MPI job.
#pragma once

#include "agent/runner.h"

#include <initializer_list>
#include <string>

namespace ty::agent {

/// Folder of our program for those in the box.
inline constexpr const char* kOwnBin = "/opt/trainyard/bin";

/// Binds it under each of these names in kOwnBin. `folder`, on the host, takes a copy when the
/// running file was replaced meanwhile.
void show_own_program(RunSpec& run, const sys::fs::path& folder,
                      std::initializer_list<const char*> names);

}  // namespace ty::agent
