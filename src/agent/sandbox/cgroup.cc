// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/cgroup.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/flat_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using sys::flat_counter;
using sys::read_quietly;
using sys::fs::path;

/// Our group in the unified hierarchy: "0::/user.slice/…".
std::string own_group(const path& self) {
    for (const std::string& line : split(read_quietly(self), '\n')) {
        if (line.starts_with("0::/")) return line.substr(4);
    }
    return {};
}

void write_setting(const path& file, const std::string& value) {
    // O_CREAT would make a plain file where the kernel offers none.
    if (!sys::fs::exists(file))
        throw_error(Code::unsupported, "Cgroup", "{} is not offered", file.filename().string());
    sys::write_file(file, value);
}

/// A group `name` under `parent`/trainyard, with the limits set.
path make_group(const path& parent, const std::string& name, const CgroupLimits& limits) {
    const path shared = parent / "trainyard";
    write_setting(parent / "cgroup.subtree_control", "+memory +pids +cpu");
    if (::mkdir(shared.c_str(), 0755) != 0 && errno != EEXIST)
        throw_errno("create {}", shared.string());
    write_setting(shared / "cgroup.subtree_control", "+memory +pids +cpu");
    path folder = shared / name;
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
        throw_errno("create {}", folder.string());
    if (limits.memory.count() > 0) {
        write_setting(folder / "memory.max", std::to_string(limits.memory.count()));
        // Swapping instead would only make the end slower; machines without swap have no such file.
        (void)capture([&] { write_setting(folder / "memory.swap.max", "0"); });
    }
    if (limits.cpus > 0)
        write_setting(folder / "cpu.max", format("{} 100000", limits.cpus * 100000));
    if (limits.processes > 0) write_setting(folder / "pids.max", std::to_string(limits.processes));
    return folder;
}

}  // namespace

Cgroup Cgroup::create(const std::string& name, const CgroupLimits& limits, const path& root,
                      const path& self) {
    Cgroup group;
    if (!limits.any()) return group;
    if (!sys::fs::exists(root / "cgroup.controllers")) {
        group.why_not_ = "no cgroup v2 at " + root.string();
        return group;
    }
    path at = root / own_group(self);
    while (at != root && at.string().size() > root.string().size()) {
        at = at.parent_path();
        const Result<path> made = capture([&] { return make_group(at, name, limits); });
        if (made.ok()) {
            group.folder_ = Result<path>(made).value();
            return group;
        }
        if (group.why_not_.empty()) group.why_not_ = made.error().what();
    }
    if (group.why_not_.empty()) {
        const Result<path> made = capture([&] { return make_group(root, name, limits); });
        if (made.ok()) {
            group.folder_ = Result<path>(made).value();
        } else {
            group.why_not_ = made.error().what();
        }
    }
    return group;
}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
    if (this == &other) return *this;
    remove();
    folder_ = std::move(other.folder_);
    why_not_ = std::move(other.why_not_);
    other.folder_.clear();
    return *this;
}

Cgroup::~Cgroup() {
    remove();
}

void Cgroup::remove() {
    if (!folder_.empty()) (void)::rmdir(folder_.c_str());
}

long long Cgroup::oom_kills() const {
    return is_open() ? flat_counter(read_quietly(folder_ / "memory.events"), "oom_kill") : -1;
}

long long machine_oom_kills(const path& vmstat) {
    return flat_counter(read_quietly(vmstat), "oom_kill");
}

}  // namespace ty::agent
