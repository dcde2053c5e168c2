// SPDX-License-Identifier: Apache-2.0
// Positioned reads and writes of the files this module appends to. Every write says where it goes,
// and one that fails is cut off again: what was acknowledged before stays, nothing half-written is
// left.
//
// Private to telemetry/.
#pragma once

#include "sys/sys.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace ty::telemetry {

void make_dirs(const sys::fs::path& dir);
/// Read-write, created when missing.
sys::Fd open_data(const sys::fs::path& path);
/// Read-write; a closed Fd when the file is missing.
sys::Fd open_data_if_exists(const sys::fs::path& path);
std::uint64_t file_size(const sys::Fd& file, const sys::fs::path& path);
/// Exactly the bytes asked for; throws corrupt when the file ends before.
void read_at(const sys::Fd& file, std::uint64_t offset, std::span<std::byte> into,
             const sys::fs::path& path);
/// All of it, or the file is cut back to `offset` and exhausted ("DiskFull") is thrown.
void write_at(const sys::Fd& file, std::uint64_t offset, std::string_view data,
              std::string_view what);
void truncate_to(const sys::Fd& file, std::uint64_t size, const sys::fs::path& path);

}  // namespace ty::telemetry
