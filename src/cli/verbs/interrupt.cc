// SPDX-License-Identifier: Apache-2.0
// Disturb a job on purpose: what spot machines and networks do, now or again and again.
#include "base/text.h"
#include "cli/client.h"
#include "cli/duration.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace ty::cli {

namespace {

constexpr const char* kTimed[] = {"notice", "freeze", "partition"};

/// What to send; `problem` says what is wrong with the command line.
struct Wish {
    Json body = Json::object();
    bool again = false, stop = false;
    std::string problem;
};

std::optional<double> seconds_in(const Invocation& invocation, const std::string& name,
                                 std::string& problem) {
    const auto time = parse_duration(invocation.get(name));
    if (!time)
        problem = format("--{} \"{}\" is no length of time; write it as 500ms, 30s, 2m or 1h", name,
                         invocation.get(name));
    return time ? std::optional<double>(std::chrono::duration<double>(*time).count())
                : std::nullopt;
}

void read_kind(const Invocation& invocation, Wish& wish) {
    std::vector<std::string> kinds;
    if (invocation.has("kill")) kinds.emplace_back("kill");
    for (const char* kind : kTimed) {
        if (!invocation.has(kind)) continue;
        kinds.emplace_back(kind);
        if (const auto time = seconds_in(invocation, kind, wish.problem)) wish.body["time"] = *time;
    }
    if (kinds.size() > 1)
        wish.problem = format("--{} exclude each other; give one of them", join(kinds, " and --"));
    wish.body["kind"] = kinds.empty() ? "notice" : kinds.front();
}

Wish read_wish(const Invocation& invocation) {
    Wish wish;
    read_kind(invocation, wish);
    if (invocation.has("node")) wish.body["node"] = invocation.get("node");
    wish.again = invocation.has("every");
    wish.stop = invocation.has("stop");
    if (wish.again)
        if (const auto every = seconds_in(invocation, "every", wish.problem))
            wish.body["every"] = *every;
    if (invocation.has("seed")) {
        const auto seed = parse_int(invocation.get("seed"));
        if (!wish.again)
            wish.problem = "--seed draws the moments of --every; give both";
        else if (!seed || *seed < 0)
            wish.problem = format("--seed \"{}\" is no whole number", invocation.get("seed"));
        else
            wish.body["seed"] = *seed;
    }
    if (wish.stop && (wish.again || wish.body.size() > 1 || invocation.has("kill")))
        wish.problem = "--stop ends what --every began and takes nothing else";
    return wish;
}

std::string told(const Json& answer) {
    const std::string job = answer.at("job").get<std::string>();
    const std::string kind = answer.at("kind").get<std::string>();
    std::string what = kind == "notice"   ? "interrupted with notice"
                       : kind == "kill"   ? "killed without notice"
                       : kind == "freeze" ? "frozen"
                                          : "cut off from the network";
    if (answer.contains("time") && kind != "kill")
        what +=
            format(" {} {:g} s", kind == "notice" ? "of" : "for", answer.at("time").get<double>());
    const std::string who =
        answer.contains("node") ? answer.at("node").get<std::string>() : "an instance";
    if (!answer.contains("every")) return format("{}: {} is {}\n", job, who, what);
    return format(
        "{}: {} is {} every {:g} s on average, seed {}; end it with `trainyard interrupt "
        "{} --stop`\n",
        job, who, what, answer.at("every").get<double>(), answer.at("seed").get<std::uint64_t>(),
        job);
}

int run_interrupt(const Invocation& invocation) {
    const Wish wish = read_wish(invocation);
    if (!wish.problem.empty()) {
        progress("trainyard: " + wish.problem + "\n");
        return kUsage;
    }
    ApiClient api = connect(invocation);
    const std::string name = invocation.argument("JOB");
    if (wish.stop) {
        const Json done = api.control("DELETE", job_path(name, "/faults"), Json::object());
        print(invocation.get("output") == "json" ? dump_json_pretty(done) + "\n"
                                                 : format("{}: no more faults\n", name));
        return kOk;
    }
    const Json done =
        api.control("POST", job_path(name, wish.again ? "/faults" : "/interrupt"), wish.body);
    print(invocation.get("output") == "json" ? dump_json_pretty(done) + "\n" : told(done));
    return kOk;
}

}  // namespace

Verb interrupt_verb() {
    return {
        .name = "interrupt",
        .summary = "take an instance away from a job, or disturb it, to see that it survives",
        .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true}},
        .options = {{.flags = "--node",
                     .help = "which instance, as algo-2; otherwise one is drawn",
                     .value = "NODE"},
                    {.flags = "--notice",
                     .help = "SIGTERM, and SIGKILL after TIME, as spot machines go",
                     .value = "TIME",
                     .otherwise = "120s"},
                    {.flags = "--kill", .help = "kill it without notice"},
                    {.flags = "--freeze", .help = "let it stand still for TIME", .value = "TIME"},
                    {.flags = "--partition",
                     .help = "cut it off the network for TIME; jobs of several instances",
                     .value = "TIME"},
                    {.flags = "--every",
                     .help = "again and again, TIME apart on average, until the job ends",
                     .value = "TIME"},
                    {.flags = "--seed",
                     .help = "of the moments and instances that --every draws",
                     .value = "N"},
                    {.flags = "--stop", .help = "end what --every began"}},
        .run = run_interrupt};
}

}  // namespace ty::cli
