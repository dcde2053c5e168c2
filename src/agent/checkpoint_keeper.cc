// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint_keeper.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kLastFlush = 30s;  ///< at least, also after the shortest notice
constexpr milliseconds kRefresh = 10min;
constexpr std::array<std::string_view, 11> kNotOurs = {"/usr",   "/bin",   "/sbin",   "/lib",
                                                       "/lib32", "/lib64", "/libx32", "/etc",
                                                       "/proc",  "/sys",   "/dev"};

bool is_below(std::string_view path, std::string_view folder) {
    return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

/// LocalPath without "..", doubled and last slashes.
std::string clean_path(const std::string& given) {
    std::string path = sys::fs::path(given).lexically_normal().string();
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const bool readable = path.starts_with('/') && path.size() > 1;
    if (!readable || std::ranges::any_of(kNotOurs, [&](std::string_view folder) {
            return is_below(path, folder);
        })) {
        throw_error(Code::invalid, "CheckpointPath",
                    "checkpoints cannot be kept at LocalPath \"{}\", which is the system's; use a "
                    "folder like /opt/ml/checkpoints",
                    given);
    }
    return path;
}

std::string job_id(const AttemptId& attempt) {
    return attempt.str().substr(0, attempt.str().rfind('.'));
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(const NodeContext& node, Runner& runner) : node_(node) {
    const plan::NodePlan& plan = node.plan;
    const std::string path = clean_path(plan.checkpoint->local_path);
    CheckpointOptions options;
    if (is_below(path, "/opt/ml")) {
        options.folder = node.paths.ml() / path.substr(std::min(path.size(), sizeof "/opt/ml"));
        program_path_ = runner.program_paths().base + path.substr(sizeof "/opt/ml" - 1);
    } else {
        options.folder = node.paths.scratch() / "checkpoints";
        make_folders(options.folder);
        runner.add_bind({options.folder.string(), path, BoxBind::Access::writable});
        program_path_ = runner.seen_as(options.folder, path);
    }
    if (program_path_ != path) {
        node.say(
            format("warning: without namespaces there is no {}; checkpoints are kept from "
                   "TRAINYARD_CHECKPOINT_DIR, {}",
                   path, program_path_));
    }
    options.checkpoint = *plan.checkpoint;
    options.staging = node.paths.scratch() / "checkpoint-staging";
    options.job = plan.job_name;
    options.job_id = job_id(plan.attempt);
    options.node = node.start.host;
    options.attempt = plan.attempt_number;
    options.elastic = plan.elastic.has_value();
    options.alone = !node.has_peers();
    options.region = plan.region;
    options.make_client = node.make_client;
    options.say = [&node](const std::string& text) { node.say(text); };
    options.on_commit = [&node](const plan::CheckpointCommitted& commit) {
        node.uplink.emit(commit);
    };
    options.on_restore = [&node](const plan::CheckpointRestored& restored) {
        node.uplink.emit(restored);
    };
    sync_ = std::make_unique<CheckpointSync>(std::move(options), node.clock);
}

void CheckpointKeeper::restore() {
    say_restored(sync_->restore(node_.by, node_.orders.halted()));
}

void CheckpointKeeper::say_restored(const CheckpointSync::Restored& restored) const {
    if (!restored.found) return;
    const std::string skipped =
        restored.skipped > 0 ? format("; {} newer ones were torn or corrupt", restored.skipped)
                             : std::string();
    node_.say(format("restored {}: {} in {} files, {} of it downloaded{}",
                     restored.id.empty() ? "the files below " + node_.plan.checkpoint->uri
                                         : "checkpoint " + restored.id,
                     to_string(Bytes(restored.bytes)), restored.files,
                     to_string(Bytes(restored.downloaded)), skipped));
}

/// Until the notice is over, but never without a chance.
Deadline CheckpointKeeper::patience() const {
    const Deadline leave_by = node_.orders.now().leave_by;
    if (leave_by.is_never()) return node_.by;
    const Deadline least = Deadline::in(kLastFlush);
    return leave_by.point() < least.point() ? least : leave_by;
}

void CheckpointKeeper::finish() {
    const Result<std::monostate> done =
        capture([&] { sync_->flush(patience(), node_.orders.gone()); });
    if (!done.ok() && !node_.orders.now().gone)
        node_.say(std::string("the last checkpoint was not stored: ") + done.error().what());
}

void CheckpointKeeper::settle(std::int64_t generation) {
    sync_->settle(generation, patience(), node_.orders.gone());
}

void CheckpointKeeper::refresh(std::int64_t generation) {
    const CheckpointSync::Restored restored = sync_->refresh(
        generation, Deadline::earlier(patience(), Deadline::in(kRefresh)), node_.orders.gone());
    if (restored.downloaded > 0) say_restored(restored);
}

}  // namespace ty::agent
