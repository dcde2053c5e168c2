// SPDX-License-Identifier: Apache-2.0
// Looks at everything a job needs on this machine and says what is missing and how to get it.
#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/home.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

struct Finding {
    std::string subject;
    enum class State { ok, note, problem } state = State::ok;
    std::string text;
};

std::string_view to_string(Finding::State state) {
    switch (state) {
        case Finding::State::ok:
            return "ok";
        case Finding::State::note:
            return "note";
        case Finding::State::problem:
            return "problem";
    }
    return "";
}

/// stdout of one of our own programs, which answers with one JSON document.
Result<Json> ask(const std::vector<std::string>& argv) {
    return capture([&] {
        const sys::Output output = sys::run({.argv = argv}, Deadline::in(seconds(60)));
        if (!output.exit.ok())
            throw_error(Code::internal, "", "{} ended with {}: {}", argv[0],
                        sys::describe(output.exit), trim(output.text));
        const auto start = output.text.find("{\"");
        return parse_json(
            trim(std::string_view(output.text).substr(start == std::string::npos ? 0 : start)));
    });
}

void check_daemon(const sys::fs::path& home, std::vector<Finding>& out) {
    using enum Finding::State;
    if (!is_daemon_alive(home)) {
        out.push_back({"daemon", note, "not running; start it with `trainyard up`"});
        return;
    }
    const auto daemon = read_daemon(home);
    const bool healthy = daemon && is_healthy(*daemon, Deadline::in(seconds(5)));
    out.push_back(
        {"daemon", healthy ? ok : problem,
         healthy
             ? format("answers at {} (pid {})", daemon->endpoint, daemon->pid)
             : "runs but does not answer; `trainyard down`, then `trainyard up`; see daemon.log"});
}

void check_disk(const sys::fs::path& home, std::vector<Finding>& out) {
    std::error_code failed;
    const auto space =
        sys::fs::space(sys::fs::exists(home, failed) ? home : home.parent_path(), failed);
    if (failed) {
        out.push_back({"disk", Finding::State::problem,
                       format("cannot look at {}: {}", home.string(), failed.message())});
        return;
    }
    const bool plenty = space.available > (2ull << 30);
    out.push_back({"disk", plenty ? Finding::State::ok : Finding::State::problem,
                   format("{} free for {}{}", to_string(Bytes(space.available)), home.string(),
                          plenty ? "" : "; free some space")});
}

void check_sandbox(std::vector<Finding>& out) {
    auto answer = ask({sibling_binary("trainyard-agent").string(), "probe"});
    if (!answer.ok()) {
        out.push_back({"sandbox", Finding::State::problem, answer.error().what()});
        return;
    }
    const std::string rung = answer.value().value("rung", "");
    const std::string why = answer.value().value("why", "");
    const bool boxed = rung == "namespaces";
    std::string text = boxed ? format("programs run in namespaces of their own, as {}",
                                      answer.value().value("root", false) ? "root" : "you")
                             : format(
                                   "programs run as plain processes of yours (rung \"{}\"): they "
                                   "see this machine and each other",
                                   rung);
    if (!why.empty()) text += "; " + why;
    out.push_back({"sandbox", boxed ? Finding::State::ok : Finding::State::note, text});
    const std::string no_network = answer.value().value("no_network", "");
    out.push_back({"network", no_network.empty() ? Finding::State::ok : Finding::State::note,
                   no_network.empty() ? "jobs of several instances have a network of their own"
                                      : "jobs of several instances cannot run: " + no_network});
}

void check_environments(const sys::fs::path& home, std::vector<Finding>& out) {
    auto answer =
        ask({sibling_binary("trainyardd").string(), "--home", home.string(), "--environments"});
    if (!answer.ok()) {
        out.push_back({"environments", Finding::State::problem, answer.error().what()});
        return;
    }
    for (const Json& row : answer.value().at("environments"))
        out.push_back({"environment " + row.at("name").get<std::string>(),
                       row.at("usable").get<bool>() ? Finding::State::ok : Finding::State::note,
                       row.at("state").get<std::string>()});
}

int run_doctor(const Invocation& invocation) {
    const sys::fs::path home = home_of(invocation);
    std::vector<Finding> findings;
    check_daemon(home, findings);
    check_disk(home, findings);
    check_sandbox(findings);
    check_environments(home, findings);
    bool healthy = true;
    for (const Finding& finding : findings)
        healthy = healthy && finding.state != Finding::State::problem;
    if (invocation.get("output") == "json") {
        Json rows = Json::array();
        for (const Finding& f : findings)
            rows.push_back({{"subject", f.subject},
                            {"state", std::string(to_string(f.state))},
                            {"text", f.text}});
        print(dump_json_pretty(rows) + "\n");
    } else {
        std::vector<std::vector<std::string>> rows;
        for (const Finding& f : findings)
            rows.push_back({std::string(to_string(f.state)), f.subject, f.text});
        print(render_table({"STATE", "WHAT", "FINDING"}, rows));
    }
    return healthy ? kOk : kFailure;
}

}  // namespace

Verb doctor_verb() {
    return {.name = "doctor",
            .summary = "check daemon, disk, sandbox and environments, with remedies",
            .run = run_doctor};
}

}  // namespace ty::cli
