// SPDX-License-Identifier: Apache-2.0
// Words for people: names of enumerators and the one sentence that says what went wrong.
#include "base/format.h"
#include "rendezvous/rendezvous.h"

#include <cstring>

namespace ty::rendezvous {

std::string_view to_string(Cause cause) {
    switch (cause) {
        case Cause::application:
            return "application";
        case Cause::infrastructure:
            return "infrastructure";
        case Cause::preemption:
            return "preemption";
        case Cause::resize:
            return "resize";
        case Cause::hang:
            return "hang";
    }
    return "unknown";
}

std::string_view to_string(FailureKind kind) {
    switch (kind) {
        case FailureKind::exit_code:
            return "exit_code";
        case FailureKind::signal:
            return "signal";
        case FailureKind::out_of_memory:
            return "out_of_memory";
        case FailureKind::disk_full:
            return "disk_full";
        case FailureKind::port_in_use:
            return "port_in_use";
        case FailureKind::hang:
            return "hang";
        case FailureKind::node_lost:
            return "node_lost";
        case FailureKind::node_silent:
            return "node_silent";
        case FailureKind::not_started:
            return "not_started";
        case FailureKind::not_ready:
            return "not_ready";
    }
    return "unknown";
}

std::string_view to_string(Phase phase) {
    switch (phase) {
        case Phase::gathering:
            return "gathering";
        case Phase::running:
            return "running";
        case Phase::draining:
            return "draining";
        case Phase::stopping:
            return "stopping";
        case Phase::over:
            return "over";
    }
    return "unknown";
}

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::succeeded:
            return "succeeded";
        case Verdict::failed:
            return "failed";
        case Verdict::drained:
            return "drained";
    }
    return "unknown";
}

namespace {

std::string who(const Failure& failure) {
    const std::string host = failure.host.empty() ? "an unnamed node" : failure.host;
    if (failure.rank < 0) return failure.host.empty() ? host : "node " + host;
    std::string where = failure.local_rank < 0
                            ? "on " + host
                            : fmt::format("local rank {} on {}", failure.local_rank, host);
    if (failure.pid > 0) where += fmt::format(", pid {}", failure.pid);
    return fmt::format("rank {} ({})", failure.rank, where);
}

std::string killed_by(int number) {
    const char* name = ::sigabbrev_np(number);
    return name == nullptr ? fmt::format("was killed by signal {}", number)
                           : fmt::format("was killed by SIG{} (signal {})", name, number);
}

std::string how_it_ended(const Failure& failure) {
    return failure.signal > 0 ? killed_by(failure.signal)
                              : fmt::format("exited with code {}", failure.exit_code);
}

std::string what(const Failure& failure) {
    switch (failure.kind) {
        case FailureKind::exit_code:
            return fmt::format("exited with code {}", failure.exit_code);
        case FailureKind::signal:
            return killed_by(failure.signal);
        case FailureKind::out_of_memory:
            return how_it_ended(failure) + ": out of memory";
        case FailureKind::disk_full:
            return how_it_ended(failure) + ": the disk is full";
        case FailureKind::port_in_use:
            return how_it_ended(failure) + ": its MASTER_PORT was in use";
        case FailureKind::hang:
            return "made no progress";
        case FailureKind::node_lost:
            return fmt::format("was lost ({})",
                               failure.message.empty() ? "its connection closed" : failure.message);
        case FailureKind::node_silent:
            return fmt::format("fell silent ({})",
                               failure.message.empty() ? "its lease ran out" : failure.message);
        case FailureKind::not_started:
            return "could not start its workers";
        case FailureKind::not_ready:
            return "could not be prepared";
    }
    return "failed";
}

}  // namespace

std::string sentence(const Failure& failure) {
    std::string text = who(failure) + " " + what(failure);
    const bool used =
        failure.kind == FailureKind::node_lost || failure.kind == FailureKind::node_silent;
    if (!failure.message.empty() && !used) text += ": " + failure.message;
    return text;
}

}  // namespace ty::rendezvous
