// SPDX-License-Identifier: Apache-2.0
#include "agent/life.h"

#include "agent/channels/channels.h"
#include "agent/collect.h"
#include "agent/contract/input_config.h"
#include "agent/runner.h"
#include "agent/script/launch.h"
#include "agent/verdict.h"
#include "base/error.h"
#include "base/text.h"

#include <cstdlib>
#include <optional>

#include <unistd.h>

namespace ty::agent {

namespace {

constexpr const char* kDownloading = "Downloading input data";
constexpr const char* kTraining = "Training image download completed. Training in progress.";

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

class Life {
public:
    Life(const NodeContext& node, ProbeResult probe)
        : node_(node),
          plan_(node.plan),
          orders_(node.orders),
          runner_(node.plan, node.paths, node.start.host, std::move(probe), node.pump,
                  node.orders) {}

    plan::Finished run() {
        node_.uplink.emit(plan::AgentUp{::getpid(), runner_.description()});
        plan::Finished finished;
        try {
            finished.outcome = stage_and_train();
            if (has_results(finished.outcome))
                finished.model_uploaded = collect_results(node_, finished.outcome);
        } catch (const Error& error) {
            finished.outcome = explain(error);
        }
        return finished;
    }

private:
    bool has_results(const plan::Outcome& outcome) const {
        return trained_ && outcome.kind != plan::Outcome::Kind::interrupted && !orders_.now().gone;
    }

    plan::Outcome stage_and_train() {
        say_environment();
        host_ = sys::read_host();
        write_ml_tree(node_.paths, plan_, interface());
        node_.uplink.emit(plan::PhaseChanged{plan::Phase::downloading, kDownloading});
        if (auto outcome = stage()) return *outcome;
        node_.uplink.emit(plan::PhaseChanged{plan::Phase::training, kTraining});
        const Deadline until = Deadline::in(plan_.limits.max_runtime);
        const std::string cache = variable("TRAINYARD_CACHE");
        const LaunchContext context{
            plan_,
            node_.paths,
            facts(),
            runner_,
            node_.pump,
            orders_,
            node_.make_client,
            cache.empty() ? node_.paths.folder.parent_path().parent_path().parent_path() / "cache"
                          : sys::fs::path(cache),
            node_.by};
        Launch launch = prepare_launch(context);
        if (launch.interrupted) return ended();
        if (launch.refusal) {
            node_.say(*launch.refusal);
            return failed(*launch.refusal, 1);
        }
        return train(launch, until);
    }

    plan::Outcome train(Launch& launch, Deadline until) {
        launch.run.place = RunSpec::Place::job;
        trained_ = true;
        const RunEnd end = runner_.run(launch.run, until, plan_.limits.stop_grace);
        plan::Outcome outcome =
            judge(plan_, launch, end, orders_.now(), node_.paths.failure().string());
        if (!end.box.exit && outcome.kind == plan::Outcome::Kind::failed) node_.say(outcome.reason);
        return outcome;
    }

    std::string interface() const { return host_.network_interface; }

    NodeFacts facts() const {
        NodeFacts facts;
        facts.paths = runner_.program_paths();
        facts.network_interface = interface();
        facts.cpus = plan_.limits.cpus > 0 ? plan_.limits.cpus : host_.cpus;
        facts.home = runner_.home();
        facts.language = variable("LANG");
        facts.time_zone = variable("TZ");
        facts.gpus = node_.start.gpus;
        return facts;
    }

    void say_environment() {
        const plan::Environment& environment = plan_.environment;
        node_.say(format(
            "image {} runs as environment \"{}\": {}", environment.image, environment.name,
            environment.description.empty() ? "the host's own programs" : environment.description));
        node_.say("sandbox: " + runner_.description());
        for (const std::string& warning : plan_.warnings) node_.say("warning: " + warning);
    }

    /// nullopt: everything is there.
    std::optional<plan::Outcome> stage() {
        Meter meter(kDownloading, node_.clock, [this](const std::string& text) {
            node_.uplink.emit(plan::PhaseChanged{plan::Phase::downloading, text});
        });
        StageContext context;
        context.make_client = node_.make_client;
        context.paths = node_.paths;
        context.host = plan_.host;
        context.hosts = plan_.hosts;
        context.say = [this](const std::string& text) { node_.say(text); };
        context.on_progress = [&meter](const Progress& progress) { meter.update(progress); };
        context.by = node_.by;
        try {
            stage_channels(context, plan_.channels, orders_.halted());
        } catch (const Error& error) {
            if (error.code() == Code::cancelled || orders_.now().ends()) return ended();
            if (!is_users(error.code())) return agent_error(error.what());
            node_.say(std::string("data download failed: ") + error.what());
            return failed(std::string("ClientError: Data download failed:") + error.what());
        }
        return std::nullopt;
    }

    plan::Outcome ended() {
        if (const auto notice = orders_.take_notice()) node_.say(*notice);
        return ended_by(orders_.now());
    }

    plan::Outcome explain(const Error& error) {
        if (orders_.now().ends()) return ended();
        node_.say(error.what());
        if (error.code() == Code::exhausted)
            return failed(std::string("ClientError: ") + error.what());
        return agent_error(error.what());
    }

    const NodeContext& node_;
    const plan::NodePlan& plan_;
    Orders& orders_;
    Runner runner_;
    sys::HostFacts host_;
    bool trained_ = false;  ///< a program ran: there may be results
};

}  // namespace

plan::Finished live(const NodeContext& node, ProbeResult probe) {
    return Life(node, std::move(probe)).run();
}

}  // namespace ty::agent
