// SPDX-License-Identifier: Apache-2.0
#include "agent/verdict.h"

#include "agent/contract/results.h"
#include "base/text.h"

#include <cerrno>

namespace ty::agent {

namespace {

std::string cut_reason(const std::string& text) {
    return std::string(truncate_utf8(to_valid_utf8(text), kReasonLimit));
}

plan::Outcome not_started(const plan::NodePlan& plan, const Launch& launch, const BoxEnd& box) {
    if (box.missing == 0) return agent_error("sandbox: " + box.failure);
    const std::string& program = launch.run.argv.front();
    std::string text = box.failure;
    if (box.missing == ENOENT && program == "train" && plan.entrypoint.empty()) {
        text = format(
            "image {} has no entry point and there is no program \"train\" on PATH; give the "
            "environment an entrypoint, or pass ContainerEntrypoint",
            plan.environment.image);
    } else if (box.missing == ENOENT) {
        text = format(
            "program \"{}\" does not exist in the container, or its \"#!\" line names one that "
            "does not",
            program);
    }
    const int code = box.missing == ENOENT ? 127 : 126;
    return failed(algorithm_error(text, code), code);
}

/// What our launcher's exit codes say that a program's do not; nullopt: judge as usual.
std::optional<plan::Outcome> judge_launcher(std::optional<int> code) {
    if (!code) return std::nullopt;
    switch (*code) {
        case 0:  // of the whole job, whatever this node had been told meanwhile
            return plan::Outcome{plan::Outcome::Kind::completed, {}, 0};
        case 143:
            return plan::Outcome{plan::Outcome::Kind::interrupted, {}, code};
        case 70:
        case 75:
        case 78:
            return agent_error(format("the launcher on this node ended with exit code {}: {}",
                                      *code,
                                      *code == 75   ? "it was cut off from the others"
                                      : *code == 78 ? "it was refused by the rendezvous"
                                                    : "a bug; see the log"));
        default:
            return std::nullopt;
    }
}

}  // namespace

plan::Outcome failed(const std::string& reason, std::optional<int> code) {
    return {.kind = plan::Outcome::Kind::failed, .reason = cut_reason(reason), .exit_code = code};
}

plan::Outcome agent_error(const std::string& what) {
    return {.kind = plan::Outcome::Kind::agent_error,
            .reason = cut_reason("InternalServerError: " + what),
            .exit_code = std::nullopt};
}

plan::Outcome ended_by(const Orders::Now& orders, std::optional<int> code) {
    return {
        .kind = orders.interrupt ? plan::Outcome::Kind::interrupted : plan::Outcome::Kind::stopped,
        .reason = {},
        .exit_code = code};
}

bool is_users(Code code) {
    switch (code) {
        case Code::invalid:
        case Code::not_found:
        case Code::conflict:
        case Code::denied:
        case Code::exhausted:
        case Code::corrupt:
        case Code::unsupported:
            return true;
        case Code::unavailable:
        case Code::timed_out:
        case Code::cancelled:
        case Code::internal:
            return false;
    }
    return false;
}

plan::Outcome judge(const plan::NodePlan& plan, const Launch& launch, const RunEnd& end,
                    const Orders::Now& orders, const std::string& failure_file) {
    const std::optional<int> code =
        end.box.exit ? std::optional(end.box.exit->shell_code()) : std::nullopt;
    const bool asked = end.why != RunEnd::Why::ended;
    if (plan.elastic && (!asked || end.why == RunEnd::Why::interrupted)) {
        if (auto outcome = judge_launcher(code)) return *outcome;
    }
    switch (end.why) {
        case RunEnd::Why::gone:
        case RunEnd::Why::stopped:
            return {.kind = plan::Outcome::Kind::stopped, .reason = {}, .exit_code = code};
        case RunEnd::Why::interrupted:
            return {.kind = plan::Outcome::Kind::interrupted, .reason = {}, .exit_code = code};
        case RunEnd::Why::timed_out:
            return {.kind = plan::Outcome::Kind::timed_out, .reason = {}, .exit_code = code};
        case RunEnd::Why::ended:
            break;
    }
    // Killed at the end of a notice that came after a stop, or just before the order was read.
    if (orders.interrupt && end.box.exit && !end.box.exit->ok()) return ended_by(orders, code);
    if (!end.box.exit) return not_started(plan, launch, end.box);
    if (end.box.exit->ok())
        return {.kind = plan::Outcome::Kind::completed, .reason = {}, .exit_code = 0};
    ProgramEnd program;
    program.exit = *end.box.exit;
    program.out_of_memory = end.out_of_memory;
    program.memory_limit = plan.limits.memory;
    program.command = launch.command;
    program.script_mode = launch.script_mode;
    return failed(failure_reason(program, read_failure_file(failure_file), end.tail), code);
}

}  // namespace ty::agent
