// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/checkpoint.h"

#include "base/error.h"

namespace ty::agent {

struct CheckpointSync::Impl {
    CheckpointOptions options;
    Clock& clock;
};

namespace {
[[noreturn]] void not_yet() {
    throw_error(Code::unsupported, "", "checkpoints are not built yet");
}
}  // namespace

CheckpointSync::CheckpointSync(CheckpointOptions options, Clock& clock)
    : impl_(std::make_unique<Impl>(Impl{std::move(options), clock})) {}
CheckpointSync::~CheckpointSync() = default;
CheckpointSync::Restored CheckpointSync::restore(Deadline, const std::stop_token&) {
    not_yet();
}
void CheckpointSync::start() {
    not_yet();
}
void CheckpointSync::brace() {
    not_yet();
}
void CheckpointSync::flush(Deadline, const std::stop_token&) {
    not_yet();
}
void CheckpointSync::settle(std::int64_t, Deadline, const std::stop_token&) {
    not_yet();
}
CheckpointSync::Restored CheckpointSync::refresh(std::int64_t, Deadline, const std::stop_token&) {
    not_yet();
}

}  // namespace ty::agent
