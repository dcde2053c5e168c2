// SPDX-License-Identifier: Apache-2.0
// Interruptions and other faults on request, once or again and again: so that a job can prove that
// it survives them before it runs where they are real.
#include "api/control/control.h"
#include "api/control/fields.h"

#include <nlohmann/json.hpp>

#include <array>

namespace ty::api::control {

namespace {

constexpr std::array<std::string_view, 4> kKinds{"notice", "kill", "freeze", "partition"};
constexpr std::array<std::string_view, 3> kOnce{"node", "kind", "time"};
constexpr std::array<std::string_view, 5> kRepeated{"node", "kind", "time", "every", "seed"};

constexpr milliseconds kNotice{120'000};  // as EC2's spot instances get
constexpr milliseconds kPause{10'000};
constexpr milliseconds kLongest{3'600'000};
constexpr milliseconds kOftenest{100};
constexpr milliseconds kRarest{30L * 24 * 3'600'000};

jobs::Fault fault_of(Fields& fields) {
    using Kind = jobs::Fault::Kind;
    jobs::Fault fault;
    const std::string kind = fields.choice("kind", kKinds).value_or("notice");
    fault.host = fields.text("node").value_or("");
    if (kind == "kill") {
        fault.kind = Kind::kill;
        fault.time = milliseconds(0);
        if (fields.has("time"))
            fields.problem("time", "has no meaning for a kill, which gives none; leave it out");
        return fault;
    }
    fault.kind = kind == "notice"   ? Kind::notice
                 : kind == "freeze" ? Kind::freeze
                                    : Kind::partition;
    const bool notice = fault.kind == Kind::notice;
    fault.time = fields.time("time", notice ? milliseconds(0) : milliseconds(1), kLongest)
                     .value_or(notice ? kNotice : kPause);
    return fault;
}

Json document_of(const std::string& job, const jobs::Fault& fault) {
    Json out = {{"job", job}, {"kind", kKinds[static_cast<std::size_t>(fault.kind)]}};
    if (!fault.host.empty()) out["node"] = fault.host;
    if (fault.kind != jobs::Fault::Kind::kill)
        out["time"] = std::chrono::duration<double>(fault.time).count();
    return out;
}

}  // namespace

Json interrupt(const Asked& asked) {
    Fields fields(asked.call.body, kOnce);
    const jobs::Fault fault = fault_of(fields);
    fields.finish();
    const jobs::Job job = require_job(asked);
    asked.call.services.jobs.inject(asked.region, asked.job, fault);
    return document_of(job.spec.name, fault);
}

Json schedule_faults(const Asked& asked) {
    Fields fields(asked.call.body, kRepeated);
    jobs::FaultSchedule schedule;
    schedule.fault = fault_of(fields);
    if (!fields.has("every"))
        fields.problem("every", "is missing; give the mean time between two faults in seconds");
    schedule.every = fields.time("every", kOftenest, kRarest).value_or(kOftenest);
    // Without a seed every schedule is another one; the answer tells it, so it can be repeated.
    const auto drawn = to_epoch_millis(asked.call.services.clock.now()) % 1'000'000;
    schedule.seed =
        static_cast<std::uint64_t>(fields.whole("seed", 0, (1LL << 53) - 1).value_or(drawn));
    fields.finish();
    const jobs::Job job = require_job(asked);
    asked.call.services.jobs.schedule_faults(asked.region, asked.job, schedule);
    Json out = document_of(job.spec.name, schedule.fault);
    out["every"] = std::chrono::duration<double>(schedule.every).count();
    out["seed"] = schedule.seed;
    return out;
}

Json end_faults(const Asked& asked) {
    Fields(asked.call.body, {}).finish();
    const jobs::Job job = require_job(asked);
    asked.call.services.jobs.schedule_faults(asked.region, asked.job, std::nullopt);
    return {{"job", job.spec.name}};
}

}  // namespace ty::api::control
