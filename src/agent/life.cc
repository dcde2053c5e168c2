// SPDX-License-Identifier: Apache-2.0
#include "agent/life.h"

#include "agent/channels/channels.h"
#include "agent/checkpoint_keeper.h"
#include "agent/collect.h"
#include "agent/contract/input_config.h"
#include "agent/elastic.h"
#include "agent/network/network.h"
#include "agent/progress_file.h"
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

constexpr const char* kNodeFolder = "/opt/trainyard/node";
constexpr const char* kProgress = "progress.json";
constexpr const char* kDownloading = "Downloading input data";
constexpr milliseconds kJoinLimit{60'000};
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

    ~Life() { node_.partition.attach({}); }
    Life(const Life&) = delete;
    Life& operator=(const Life&) = delete;

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
        if (auto outcome = join_network()) return *outcome;
        write_ml_tree(node_.paths, plan_, interface());
        show_node_folder();
        node_.uplink.emit(plan::PhaseChanged{plan::Phase::downloading, kDownloading});
        if (auto outcome = restore()) return *outcome;
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
        RunSpec& run = launch.run;
        run.place = RunSpec::Place::job;
        run.variables.set("TRAINYARD_PROGRESS_FILE", folder_.program_path + "/" + kProgress);
        ProgressFile progress(folder_.on_host / kProgress);
        run.on_tick = [this, &progress] {
            if (const auto news = progress.look()) node_.uplink.emit(*news);
        };
        if (checkpoints_) {
            run.variables.set("TRAINYARD_CHECKPOINT_DIR", checkpoints_->program_path());
            // The launcher of an elastic job kills by itself, and says when it is done.
            if (!plan_.elastic) run.before_kill = [this] { checkpoints_->brace(); };
        }
        std::optional<ElasticNode> elastic;
        if (plan_.elastic) {
            elastic.emplace(node_, folder_, network_.get(), checkpoints_.get());
            elastic->equip(run);
        }
        if (checkpoints_) checkpoints_->start();
        trained_ = true;
        const RunEnd end = runner_.run(run, until, plan_.limits.stop_grace);
        if (elastic) elastic->finish();
        if (checkpoints_ && end.why != RunEnd::Why::gone) checkpoints_->finish();
        plan::Outcome outcome =
            judge(plan_, launch, end, orders_.now(), node_.paths.failure().string());
        if (!end.box.exit && !outcome.reason.empty()) node_.say(outcome.reason);
        return outcome;
    }

    /// nullopt: we have our place in it, or there is none to have.
    std::optional<plan::Outcome> join_network() {
        if (node_.start.network.empty()) return std::nullopt;
        try {
            network_ = JobNetwork::join(node_.start.network, plan_.host, daemon_address(),
                                        Deadline::in(kJoinLimit), orders_.halted());
            runner_.join(*network_);
        } catch (const Error& error) {
            if (error.code() == Code::cancelled || orders_.now().ends()) return ended();
            const std::string text =
                format("the instances of this job have no network: {}", error.what());
            node_.say(text);
            const bool machines = error.code() == Code::denied || error.code() == Code::unsupported;
            return machines ? failed("ClientError: " + text) : agent_error(text);
        }
        node_.partition.attach([this](bool up) { network_->set_link(up); });
        return std::nullopt;
    }

    /// Where the program's AWS calls go, "127.0.0.1:4545".
    std::string daemon_address() const {
        const http::Url url = http::parse_url(plan_.endpoint);
        const std::string host = url.host == "localhost" ? "127.0.0.1" : url.host;
        const bool bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
        return format("{}:{}", bare_v6 ? "[" + host + "]" : host, url.port);
    }

    void show_node_folder() {
        folder_.on_host = node_.paths.scratch() / "node";
        make_folders(folder_.on_host);
        runner_.add_bind({folder_.on_host.string(), kNodeFolder, BoxBind::Access::writable});
        folder_.program_path = runner_.seen_as(folder_.on_host, kNodeFolder);
    }

    /// nullopt: the checkpoint folder is as the newest checkpoint, or there is none to restore.
    std::optional<plan::Outcome> restore() {
        if (!plan_.checkpoint) return std::nullopt;
        try {
            checkpoints_ = std::make_unique<CheckpointKeeper>(node_, runner_);
            checkpoints_->restore();
        } catch (const Error& error) {
            if (error.code() == Code::cancelled || orders_.now().ends()) return ended();
            const std::string text = format("Checkpoint restore failed: {}", error.what());
            node_.say(text);
            return is_users(error.code()) ? failed("ClientError: " + text) : agent_error(text);
        }
        return std::nullopt;
    }

    std::string interface() const {
        return network_ ? network_->interface() : host_.network_interface;
    }

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
    std::unique_ptr<JobNetwork> network_;
    Runner runner_;
    sys::HostFacts host_;
    NodeFolder folder_;
    std::unique_ptr<CheckpointKeeper> checkpoints_;
    bool trained_ = false;  ///< a program ran: there may be results
};

}  // namespace

plan::Finished live(const NodeContext& node, ProbeResult probe) {
    return Life(node, std::move(probe)).run();
}

}  // namespace ty::agent
