// SPDX-License-Identifier: Apache-2.0
// A writer that is killed closes its files like one that is done. For the formats that checkpoints
// are made of, the bytes themselves tell the difference. Private to checkpoint/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ty::agent {

/// Why the open file cannot be complete; empty when nothing speaks against it. Knows zip archives
/// (torch.save, numpy's npz), safetensors, and empty files that bear a checkpoint's extension.
std::string why_torn(int fd, std::uint64_t size, std::string_view path);

}  // namespace ty::agent
