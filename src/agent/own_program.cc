// SPDX-License-Identifier: Apache-2.0
#include "agent/own_program.h"

namespace ty::agent {

namespace {

/// A path of this program that can be bound into the box.
std::string own_program(const sys::fs::path& folder) {
    const std::string running = "/proc/self/exe";
    std::error_code failed;
    const sys::fs::path path = sys::fs::read_symlink(running, failed);
    if (!failed && sys::fs::equivalent(path, running, failed)) return path.string();
    const sys::fs::path copy = folder / "trainyard-agent";
    sys::fs::copy_file(running, copy, sys::fs::copy_options::overwrite_existing);
    return copy.string();
}

}  // namespace

void show_own_program(RunSpec& run, const sys::fs::path& folder,
                      std::initializer_list<const char*> names) {
    const std::string self = own_program(folder);
    for (const char* name : names) {
        run.binds.push_back({self, std::string(kOwnBin) + "/" + name, BoxBind::Access::read_only});
    }
}

}  // namespace ty::agent
