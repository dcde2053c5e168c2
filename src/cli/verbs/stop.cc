// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

int run_stop(const Invocation& invocation) {
    ApiClient api = connect(invocation);
    const std::string name = invocation.argument("JOB");
    api.call("SageMaker.StopTrainingJob", {{"TrainingJobName", name}});
    if (!invocation.has("wait")) {
        print(format("{} is stopping\n", name));
        return kOk;
    }
    const Deadline by = Deadline::in(seconds(300));
    while (!by.passed()) {
        const Json job = api.call("SageMaker.DescribeTrainingJob", {{"TrainingJobName", name}});
        const std::string status = job.at("TrainingJobStatus").get<std::string>();
        if (status != "Stopping" && status != "InProgress") {
            print(format("{} is {}\n", name, status));
            return kOk;
        }
        sys::pause(Deadline::in(milliseconds(200)), {});
    }
    throw_error(Code::timed_out, "", "{} was still stopping after five minutes", name);
}

}  // namespace

Verb stop_verb() {
    return {.name = "stop",
            .summary =
                "stop a job: SIGTERM, then SIGKILL after the grace period; what it wrote is kept",
            .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true}},
            .options = {{.flags = "--wait", .help = "wait until it has stopped"}},
            .run = run_stop};
}

}  // namespace ty::cli
