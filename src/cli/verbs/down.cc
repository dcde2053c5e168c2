// SPDX-License-Identifier: Apache-2.0
// Stop the daemon. Running jobs go on and are adopted by the next `up`, unless asked otherwise.
#include "base/error.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

#include <csignal>

namespace ty::cli {

namespace {

std::size_t stop_running_jobs(ApiClient& api, Deadline by) {
    std::size_t stopped = 0;
    while (true) {
        const Json page = api.call("SageMaker.ListTrainingJobs",
                                   {{"StatusEquals", "InProgress"}, {"MaxResults", 100}});
        const Json stopping = api.call("SageMaker.ListTrainingJobs",
                                       {{"StatusEquals", "Stopping"}, {"MaxResults", 100}});
        for (const Json& job : page.at("TrainingJobSummaries")) {
            api.call("SageMaker.StopTrainingJob", {{"TrainingJobName", job.at("TrainingJobName")}});
            ++stopped;
        }
        if (page.at("TrainingJobSummaries").empty() && stopping.at("TrainingJobSummaries").empty())
            return stopped;
        if (by.passed())
            throw_error(Code::timed_out, "",
                        "jobs were still stopping after 150 seconds; look with `trainyard jobs`");
        sys::pause(Deadline::in(milliseconds(100)), {});
    }
}

int run_down(const Invocation& invocation) {
    const sys::fs::path home = home_of(invocation);
    if (!is_daemon_alive(home)) {
        print("Trainyard is not running\n");
        return kOk;
    }
    const DaemonInfo daemon = require_daemon(home);
    std::size_t running = 0;
    if (is_healthy(daemon, Deadline::in(seconds(2)))) {
        ApiClient api(daemon);
        if (invocation.has("stop-jobs")) {
            stop_running_jobs(api, Deadline::in(seconds(150)));
        } else {
            running = api.call("SageMaker.ListTrainingJobs",
                               {{"StatusEquals", "InProgress"}, {"MaxResults", 100}})
                          .at("TrainingJobSummaries")
                          .size();
        }
    }
    ::kill(daemon.pid, SIGTERM);
    const Deadline by = Deadline::in(seconds(20));
    while (is_daemon_alive(home)) {
        if (by.passed())
            throw_error(Code::timed_out, "",
                        "the daemon with pid {} did not end within 20 seconds after SIGTERM",
                        daemon.pid);
        sys::pause(Deadline::in(milliseconds(10)), {});
    }
    print("Trainyard is down\n");
    if (running > 0)
        progress(format("{} running jobs go on; the next `trainyard up` picks them up\n", running));
    return kOk;
}

}  // namespace

Verb down_verb() {
    return {.name = "down",
            .summary = "stop the daemon; running jobs go on unless --stop-jobs is given",
            .options = {{.flags = "--stop-jobs",
                         .help = "stop all running jobs first and wait for them"}},
            .run = run_down};
}

}  // namespace ty::cli
