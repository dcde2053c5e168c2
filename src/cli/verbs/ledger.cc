// SPDX-License-Identifier: Apache-2.0
// Where a job's time and money went, or that of many jobs.
#include "base/text.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace ty::cli {

namespace {

constexpr const char* kClasses[] = {"useful", "unsettled",  "lost",   "restart",
                                    "idle",   "checkpoint", "waiting"};

std::string show_seconds(double time) {
    if (time < 60) return format("{:.1f}s", time);
    return show_duration(std::llround(time));
}

double at(const Json& ledger, const char* name) {
    return ledger.at("seconds").at(name).get<double>();
}

std::string money(const Json& cost, const char* name) {
    return format("{:.2f} {}", cost.at(name).get<double>(), cost.at("currency").get<std::string>());
}

std::string one_text(const Json& ledger) {
    std::string out;
    const auto row = [&out](const char* label, const std::string& value) {
        out += format("{:<14}{}\n", label, value);
    };
    if (ledger.contains("job"))
        row("job", format("{} ({}{})", ledger.at("job").get<std::string>(),
                          ledger.at("status").get<std::string>(),
                          ledger.at("spot").get<bool>() ? ", spot" : ""));
    if (ledger.contains("jobs")) row("jobs", dump_json(ledger.at("jobs")));
    const double billed = at(ledger, "billed");
    for (const char* name : kClasses) {
        const double time = at(ledger, name);
        const bool part = std::string_view(name) != "waiting" && billed > 0;
        row(name, part ? format("{:<12}{:5.1f} %", show_seconds(time), 100 * time / billed)
                       : show_seconds(time));
    }
    row("billed", show_seconds(billed));
    row("interruptions", dump_json(ledger.at("interruptions")));
    row("restarts", dump_json(ledger.at("restarts")));
    if (!ledger.contains("cost")) return out;
    const Json& cost = ledger.at("cost");
    row("spent", money(cost, "spent"));
    row("on demand", money(cost, "on_demand") + " for the useful time alone");
    row("lost money", money(cost, "lost"));
    if (ledger.value("jobs_without_price", 0) > 0)
        row("no price for", format("{} jobs, which are not in these sums",
                                   ledger.at("jobs_without_price").get<int>()));
    return out;
}

std::string table_of(const Json& sums) {
    const bool priced = sums.contains("cost");
    std::vector<std::string> header = {
        to_upper(sums.at("by").get<std::string>()), "JOBS", "USEFUL", "LOST", "BILLED", "GOODPUT"};
    if (priced) header.insert(header.end(), {"SPENT", "ON DEMAND"});
    std::vector<std::vector<std::string>> cells;
    const auto add = [&](const std::string& name, const Json& sum) {
        std::vector<std::string> row = {
            name,
            dump_json(sum.at("jobs")),
            show_seconds(at(sum, "useful")),
            show_seconds(at(sum, "lost")),
            show_seconds(at(sum, "billed")),
            sum.contains("goodput") ? format("{:.1f} %", 100 * sum.at("goodput").get<double>())
                                    : "-"};
        if (priced) {
            row.push_back(money(sum.at("cost"), "spent"));
            row.push_back(money(sum.at("cost"), "on_demand"));
        }
        cells.push_back(std::move(row));
    };
    for (const Json& group : sums.at("groups")) {
        const std::string value = group.at("value").get<std::string>();
        add(value.empty() ? "(none)" : value, group);
    }
    add("all", sums);
    return render_table(header, cells);
}

int run_ledger(const Invocation& invocation) {
    const std::string job = invocation.argument("JOB");
    if (!job.empty() && (invocation.has("tag") || invocation.has("by"))) {
        progress("trainyard: --tag and --by are for sums over jobs; leave JOB or them out\n");
        return kUsage;
    }
    if (invocation.has("tag") && invocation.get("tag").find('=') == std::string::npos) {
        progress(format("trainyard: --tag \"{}\" must be KEY=VALUE\n", invocation.get("tag")));
        return kUsage;
    }
    std::string path = job.empty() ? "ledger" : job_path(job, "/ledger");
    if (invocation.has("tag")) path += "?tag=" + percent_encode(invocation.get("tag"));
    if (invocation.has("by"))
        path += (invocation.has("tag") ? "&by=" : "?by=") + percent_encode(invocation.get("by"));
    ApiClient api = connect(invocation);
    const Json found = api.control("GET", path, Json::object());
    if (invocation.get("output") == "json")
        print(dump_json_pretty(found) + "\n");
    else
        print(found.contains("groups") ? table_of(found) : one_text(found));
    return kOk;
}

}  // namespace

Verb ledger_verb() {
    return {
        .name = "ledger",
        .summary = "where the time and money of a job, or of all jobs, went",
        .arguments = {{.name = "JOB",
                       .help = "name of the training job; without: sums over jobs",
                       .required = false,
                       .is_job = true}},
        .options = {{.flags = "--tag", .help = "only jobs with this tag", .value = "KEY=VALUE"},
                    {.flags = "--by", .help = "a row for each value of this tag", .value = "KEY"}},
        .run = run_ledger};
}

}  // namespace ty::cli
