// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include "agent/channels/channels.h"
#include "agent/contract/input_config.h"
#include "agent/contract/results.h"
#include "agent/control_plane.h"
#include "agent/orders.h"
#include "agent/runner.h"
#include "agent/script/launch.h"
#include "agent/shipping/log_pump.h"
#include "agent/transfer/meter.h"
#include "agent/transfer/upload.h"
#include "agent/uplink.h"
#include "aws/aws.h"
#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

#include <csignal>
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr const char* kDownloading = "Downloading input data";
constexpr const char* kTraining = "Training image download completed. Training in progress.";
constexpr const char* kUploading = "Uploading generated training model";
constexpr milliseconds kTransferLimit = 24h;
constexpr milliseconds kPlanPatience = 30s;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string cut_reason(const std::string& text) {
    return std::string(truncate_utf8(to_valid_utf8(text), kReasonLimit));
}

plan::Outcome failed(const std::string& reason, std::optional<int> code = std::nullopt) {
    return {.kind = plan::Outcome::Kind::failed, .reason = cut_reason(reason), .exit_code = code};
}

plan::Outcome agent_error(const std::string& what) {
    return {.kind = plan::Outcome::Kind::agent_error,
            .reason = cut_reason("InternalServerError: " + what),
            .exit_code = std::nullopt};
}

/// Whose fault a failed transfer is: what the request or the data can mend is the user's.
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

/// The job's own life, once the plan is here.
class Job {
public:
    Job(const plan::NodePlan& plan, const HostPaths& paths, ProbeResult probe, LogPump& pump,
        Uplink& uplink, Orders& orders, SystemClock& clock)
        : plan_(plan),
          paths_(paths),
          pump_(pump),
          uplink_(uplink),
          orders_(orders),
          clock_(clock),
          runner_(plan, paths, std::move(probe), pump, orders),
          by_(Deadline::in(kTransferLimit)) {
        make_client_ = [this] {
            const plan::Credentials& keys = plan_.credentials;
            return std::make_unique<aws::S3Client>(
                http::parse_url(plan_.endpoint),
                aws::Credentials{keys.access_key, keys.secret_key, keys.session_token},
                plan_.region, clock_);
        };
    }

    plan::Finished run() {
        uplink_.emit(plan::AgentUp{::getpid(), runner_.description()});
        plan::Finished finished;
        try {
            finished.outcome = stage_and_train();
            if (trained_ && !orders_.now().gone)
                finished.model_uploaded = collect(finished.outcome);
        } catch (const Error& error) {
            finished.outcome = explain(error);
        }
        return finished;
    }

private:
    plan::Outcome stage_and_train() {
        say_environment();
        const sys::HostFacts host = sys::read_host();
        write_ml_tree(paths_, plan_, host.network_interface);
        uplink_.emit(plan::PhaseChanged{plan::Phase::downloading, kDownloading});
        if (auto outcome = stage()) return *outcome;
        uplink_.emit(plan::PhaseChanged{plan::Phase::training, kTraining});
        const Deadline until = Deadline::in(plan_.limits.max_runtime);
        NodeFacts facts;
        facts.paths = runner_.program_paths();
        facts.network_interface = host.network_interface;
        facts.cpus = plan_.limits.cpus > 0 ? plan_.limits.cpus : host.cpus;
        facts.home = runner_.home();
        facts.language = variable("LANG");
        facts.time_zone = variable("TZ");
        const std::string cache = variable("TRAINYARD_CACHE");
        const LaunchContext context{
            plan_,
            paths_,
            facts,
            runner_,
            pump_,
            orders_,
            make_client_,
            cache.empty() ? paths_.folder.parent_path().parent_path().parent_path() / "cache"
                          : sys::fs::path(cache),
            by_};
        const Launch launch = prepare_launch(context);
        if (launch.interrupted) return stopped();
        if (launch.refusal) {
            pump_.say(*launch.refusal);
            return failed(*launch.refusal, 1);
        }
        trained_ = true;
        return judge(launch, runner_.run(launch.run, until, plan_.limits.stop_grace));
    }

    void say_environment() {
        const plan::Environment& environment = plan_.environment;
        pump_.say(format(
            "image {} runs as environment \"{}\": {}", environment.image, environment.name,
            environment.description.empty() ? "the host's own programs" : environment.description));
        pump_.say("sandbox: " + runner_.description());
        for (const std::string& warning : plan_.warnings) pump_.say("warning: " + warning);
    }

    /// nullopt: everything is there.
    std::optional<plan::Outcome> stage() {
        Meter meter(kDownloading, clock_, [this](const std::string& text) {
            uplink_.emit(plan::PhaseChanged{plan::Phase::downloading, text});
        });
        StageContext context;
        context.make_client = make_client_;
        context.paths = paths_;
        context.say = [this](const std::string& text) { pump_.say(text); };
        context.on_progress = [&meter](const Progress& progress) { meter.update(progress); };
        context.by = by_;
        try {
            stage_channels(context, plan_.channels, orders_.halted());
        } catch (const Error& error) {
            if (error.code() == Code::cancelled || orders_.now().stop) return stopped();
            if (!is_users(error.code())) return agent_error(error.what());
            pump_.say(std::string("data download failed: ") + error.what());
            return failed(std::string("ClientError: Data download failed:") + error.what());
        }
        return std::nullopt;
    }

    plan::Outcome judge(const Launch& launch, const RunEnd& end) {
        const std::optional<int> code =
            end.box.exit ? std::optional(end.box.exit->shell_code()) : std::nullopt;
        switch (end.why) {
            case RunEnd::Why::gone:
            case RunEnd::Why::stopped:
                return {.kind = plan::Outcome::Kind::stopped, .reason = {}, .exit_code = code};
            case RunEnd::Why::timed_out:
                return {.kind = plan::Outcome::Kind::timed_out, .reason = {}, .exit_code = code};
            case RunEnd::Why::ended:
                break;
        }
        if (!end.box.exit) return not_started(launch, end.box);
        if (end.box.exit->ok())
            return {.kind = plan::Outcome::Kind::completed, .reason = {}, .exit_code = 0};
        ProgramEnd program;
        program.exit = *end.box.exit;
        program.out_of_memory = end.out_of_memory;
        program.memory_limit = plan_.limits.memory;
        program.command = launch.command;
        program.script_mode = launch.script_mode;
        return failed(
            failure_reason(program, read_failure_file(paths_.failure().string()), end.tail), code);
    }

    plan::Outcome not_started(const Launch& launch, const BoxEnd& box) {
        if (box.missing == 0) return agent_error("sandbox: " + box.failure);
        const std::string& program = launch.run.argv.front();
        std::string text = box.failure;
        if (box.missing == ENOENT && program == "train" && plan_.entrypoint.empty()) {
            text = format(
                "image {} has no entry point and there is no program \"train\" on PATH; give the "
                "environment "
                "an entrypoint, or pass ContainerEntrypoint",
                plan_.environment.image);
        } else if (box.missing == ENOENT) {
            text = format(
                "program \"{}\" does not exist in the container, or its \"#!\" line names one that "
                "does not",
                program);
        }
        pump_.say(text);
        const int code = box.missing == ENOENT ? 127 : 126;
        return failed(algorithm_error(text, code), code);
    }

    plan::Outcome stopped() const {
        return {.kind = plan::Outcome::Kind::stopped, .reason = {}, .exit_code = std::nullopt};
    }

    /// Results to S3, whatever the outcome. True when a model went there.
    bool collect(plan::Outcome& outcome) {
        uplink_.emit(plan::PhaseChanged{plan::Phase::uploading, kUploading});
        Meter meter(kUploading, clock_, [this](const std::string& text) {
            uplink_.emit(plan::PhaseChanged{plan::Phase::uploading, text});
        });
        const auto progress = [&meter](const Progress& now) { meter.update(now); };
        const auto warn = [this](const std::string& text) { pump_.say("warning: " + text); };
        try {
            const aws::S3Uri uri = aws::parse_s3_uri(plan_.output.uri);
            const auto upload = [&](const sys::fs::path& root, const std::string& name) {
                switch (plan_.output.compression) {
                    case plan::Output::Compression::gzip:
                        return upload_archive(make_client_, root, uri.bucket,
                                              uri.key + "/" + name + ".tar.gz", warn, progress, by_,
                                              orders_.gone());
                    case plan::Output::Compression::none:
                        return upload_files(make_client_, root, uri.bucket, uri.key + "/" + name,
                                            warn, progress, by_, orders_.gone());
                }
                return false;
            };
            const bool model = upload(paths_.model(), "model");
            upload(paths_.output_data(), "output");
            return model;
        } catch (const Error& error) {
            if (error.code() == Code::cancelled) return false;
            pump_.say(std::string("upload of the results failed: ") + error.what());
            if (outcome.kind == plan::Outcome::Kind::completed) {
                const std::string text = std::string("Artifact upload failed:") + error.what();
                outcome = is_users(error.code()) ? failed("ClientError: " + text, outcome.exit_code)
                                                 : agent_error(text);
            }
            return false;
        }
    }

    plan::Outcome explain(const Error& error) {
        if (orders_.now().stop || orders_.now().gone) return stopped();
        pump_.say(error.what());
        if (error.code() == Code::exhausted)
            return failed(std::string("ClientError: ") + error.what());
        return agent_error(error.what());
    }

    const plan::NodePlan& plan_;
    const HostPaths& paths_;
    LogPump& pump_;
    Uplink& uplink_;
    Orders& orders_;
    SystemClock& clock_;
    Runner runner_;
    const Deadline by_;
    MakeClient make_client_;
    bool trained_ = false;  ///< a program ran: there may be results
};

void write_pid_file(const sys::fs::path& folder) {
    sys::ProcessStat stat;
    (void)sys::read_process(::getpid(), stat);
    // Not synced to the disk: it has to survive this process, not the machine.
    sys::write_file(folder / "agent.pid.new", format("{} {}\n", ::getpid(), stat.start_ticks));
    sys::fs::rename(folder / "agent.pid.new", folder / "agent.pid");
}

/// The engine's lock travels with us; the job must not hold it on.
void keep_lock() {
    const auto number = parse_int(variable("TRAINYARD_LOCK_FD"));
    if (number && *number > 2) (void)::fcntl(static_cast<int>(*number), F_SETFD, FD_CLOEXEC);
}

/// Deliver the end, last line first. Returns when the daemon has it or nobody wants it.
void deliver(Uplink& uplink, Orders& orders, const sys::fs::path& folder, std::string_view how) {
    (void)uplink.flush(Deadline::never(), orders.gone());
    sys::write_file(folder / "agent.done", std::string(how) + "\n");
}

}  // namespace

int run_agent(const sys::fs::path& folder) {
    sys::SignalFd signals({SIGTERM, SIGINT, SIGHUP});
    sys::ignore_sigpipe();
    keep_lock();
    write_pid_file(folder);
    Probe probe;  // works while the plan is on its way
    SystemClock clock;
    HostPaths paths;
    paths.folder = folder;
    make_folders(paths.scratch());
    const Start start = read_start(paths.start());
    Orders orders;
    TaskGroup listeners;
    listeners.start("signals", [&](const std::stop_token& stop) {
        // Whoever signals the agent wants the job gone, not finished.
        while (sys::wait(signals.fd(), sys::Readiness::readable, Deadline::never(), stop) ==
               sys::Waited::ready) {
            if (signals.next() != 0) orders.give_up();
        }
    });
    Uplink uplink(start, paths.events(), clock,
                  {.on_command =
                       [&orders](const plan::Command& command) {
                           if (const auto* stop = std::get_if<plan::Stop>(&command))
                               orders.stop(stop->grace);
                       },
                   .on_gone = [&orders] { orders.give_up(); }});
    switch (uplink.earlier()) {
        case Uplink::Earlier::none:
            break;
        case Uplink::Earlier::unfinished:
            uplink.emit(plan::Finished{
                agent_error("an earlier agent of this attempt ended without a word"), false});
            [[fallthrough]];
        case Uplink::Earlier::finished:
            deliver(uplink, orders, folder, "delivered");
            return 0;
    }
    ControlPlane daemon(start);
    ControlPlane::Reply reply;
    try {
        reply = daemon.call_patiently("GET", "plan", "", kPlanPatience, orders.gone());
    } catch (const Error& error) {
        if (error.code() != Code::cancelled) throw;
        reply.verdict = ControlPlane::Verdict::gone;
    }
    if (reply.verdict == ControlPlane::Verdict::gone) {
        sys::write_file(folder / "agent.done", "gone\n");
        return 0;
    }
    Result<plan::NodePlan> plan = capture([&] { return plan::plan_from_json(reply.body); });
    if (!plan.ok()) {
        uplink.emit(plan::Finished{agent_error(plan.error().what()), false});
        deliver(uplink, orders, folder, "refused");
        return 0;
    }
    LogPump pump(start, plan.value().stream, paths.log_spool(), clock,
                 [&orders] { orders.give_up(); });
    plan::Finished finished;
    try {
        Job job(plan.value(), paths, probe.finish(), pump, uplink, orders, clock);
        finished = job.run();
    } catch (const Error& error) {
        finished.outcome = agent_error(error.what());
    }
    // All lines before the end: a client that sees the end reads the log once more and leaves.
    (void)pump.flush(Deadline::never(), orders.gone());
    if (!orders.now().gone) uplink.emit(finished);
    deliver(uplink, orders, folder, orders.now().gone ? "gone" : "finished");
    return 0;
}

}  // namespace ty::agent
