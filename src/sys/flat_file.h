// SPDX-License-Identifier: Apache-2.0
// The kernel's small "name number" files: /proc/vmstat, a cgroup's memory.events.
#pragma once

#include "sys/fd.h"

#include <string>
#include <string_view>

namespace ty::sys {

/// The whole file; empty when it cannot be read.
std::string read_quietly(const fs::path& file);
/// Value of the line "name number"; -1 when absent.
long long flat_counter(const std::string& text, std::string_view name);

}  // namespace ty::sys
