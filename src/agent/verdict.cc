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
