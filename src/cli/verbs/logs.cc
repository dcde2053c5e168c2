// SPDX-License-Identifier: Apache-2.0
// Print a job's log; with --follow until the job ends, across restarts of the daemon.
#include "base/error.h"
#include "base/result.h"
#include "base/retry.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

#include <map>

namespace ty::cli {

namespace {

constexpr const char* kGroup = "/aws/sagemaker/TrainingJobs";

class LogPrinter {
public:
    LogPrinter(const Invocation& invocation, std::string job)
        : invocation_(invocation),
          job_(std::move(job)),
          api_(std::make_unique<ApiClient>(require_daemon(home_of(invocation)))) {}

    /// All lines there are now. Remembers where it stopped.
    void print_new() {
        Json streams;
        try {
            streams = api_->call("Logs_20140328.DescribeLogStreams",
                                 {{"logGroupName", kGroup}, {"logStreamNamePrefix", job_ + "/"}});
        } catch (const Error& error) {
            if (error.code() != Code::not_found) throw;
            return;
        }
        const Json list = streams.at("logStreams");
        for (const Json& stream : list)
            print_stream(stream.at("logStreamName").get<std::string>(), list.size() > 1);
    }

    Json describe() {
        return api_->call("SageMaker.DescribeTrainingJob", {{"TrainingJobName", job_}});
    }

    /// The daemon went away: take up a connection again, also when it came back on another port.
    void reconnect() { api_ = std::make_unique<ApiClient>(require_daemon(home_of(invocation_))); }

private:
    void print_stream(const std::string& name, bool prefixed) {
        while (true) {
            Json input = {
                {"logGroupName", kGroup}, {"logStreamName", name}, {"startFromHead", true}};
            if (const auto token = tokens_.find(name); token != tokens_.end())
                input["nextToken"] = token->second;
            const Json page = api_->call("Logs_20140328.GetLogEvents", input);
            const std::string label = name.substr(name.rfind('/') + 1);
            std::string text;
            for (const Json& event : page.at("events")) {
                if (prefixed) text += label.substr(0, label.rfind('-')) + " | ";
                text += event.at("message").get<std::string>() + "\n";
            }
            print(text);
            tokens_[name] = page.at("nextForwardToken").get<std::string>();
            if (page.at("events").empty()) return;
        }
    }

    const Invocation& invocation_;
    std::string job_;
    std::unique_ptr<ApiClient> api_;
    std::map<std::string, std::string> tokens_;
};

bool is_over(const std::string& status) {
    return status == "Completed" || status == "Failed" || status == "Stopped";
}

int exit_code_of(const Json& job) {
    const std::string status = job.at("TrainingJobStatus").get<std::string>();
    if (status == "Completed") return kOk;
    return status == "Failed" ? kJobFailed : kJobStopped;
}

int follow(LogPrinter& printer, const std::string& name) {
    Backoff backoff(milliseconds(100), milliseconds(2000));
    std::string last_message;
    bool lost = false;
    while (true) {
        const auto outcome = capture([&] {
            if (lost) printer.reconnect();
            lost = false;
            // Status first: lines stored before the job turned terminal are then all printed.
            const Json job = printer.describe();
            printer.print_new();
            return job;
        });
        if (!outcome.ok()) {
            const Code code = outcome.error().code();
            if (code != Code::unavailable && code != Code::timed_out) throw outcome.error();
            if (!lost) progress("trainyard: the daemon is away, waiting for it\n");
            lost = true;
            sys::pause(Deadline::in(backoff.next()), {});
            continue;
        }
        backoff.reset();
        Json job = Result<Json>(outcome).value();
        const Json& current = job.at("SecondaryStatusTransitions").back();
        const std::string message = current.value("StatusMessage", "");
        if (message != last_message) progress(format("trainyard: {}: {}\n", name, message));
        last_message = message;
        if (is_over(job.at("TrainingJobStatus").get<std::string>())) {
            if (job.contains("FailureReason"))
                progress("trainyard: " + job.at("FailureReason").get<std::string>() + "\n");
            return exit_code_of(job);
        }
        sys::pause(Deadline::in(milliseconds(200)), {});
    }
}

int run_logs(const Invocation& invocation) {
    const std::string name = invocation.argument("JOB");
    LogPrinter printer(invocation, name);
    if (invocation.has("follow")) return follow(printer, name);
    printer.describe();  // an unknown job is an error, not silence
    printer.print_new();
    return kOk;
}

}  // namespace

Verb logs_verb() {
    return {.name = "logs",
            .summary = "print a job's log; --follow until it ends and exit as the job did",
            .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true}},
            .options = {{.flags = "-f,--follow",
                         .help = "go on until the job ends; exit 0, 20 (failed) or 21 (stopped)"}},
            .run = run_logs};
}

}  // namespace ty::cli
