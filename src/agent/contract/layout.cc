// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/layout.h"

#include "base/error.h"

namespace ty::agent {

void make_folders(const sys::fs::path& path) {
    std::error_code failed;
    sys::fs::create_directories(path, failed);
    if (failed) throw errno_error(failed.value(), format("create folder {}", path.string()));
}

}  // namespace ty::agent
