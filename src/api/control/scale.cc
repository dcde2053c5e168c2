// SPDX-License-Identifier: Apache-2.0
// Another number of instances for an elastic job that runs.
#include "api/control/control.h"
#include "api/control/fields.h"

#include <nlohmann/json.hpp>

#include <array>

namespace ty::api::control {

Json scale(const Asked& asked) {
    constexpr std::array<std::string_view, 1> kKnown{"instances"};
    Fields fields(asked.call.body, kKnown);
    if (!fields.has("instances"))
        fields.problem("instances", "is missing; give the number of instances from now on");
    const auto instances = static_cast<int>(fields.whole("instances", 1, 1000).value_or(1));
    fields.finish();
    const jobs::Job job = require_job(asked);
    asked.call.services.jobs.scale(asked.region, asked.job, instances);
    return {{"job", job.spec.name}, {"instances", instances}};
}

}  // namespace ty::api::control
