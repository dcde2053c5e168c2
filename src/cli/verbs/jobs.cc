// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

Json fetch(ApiClient& api, const Invocation& invocation) {
    Json input = Json::object();
    if (invocation.has("status")) input["StatusEquals"] = invocation.get("status");
    if (invocation.has("name-contains")) input["NameContains"] = invocation.get("name-contains");
    const long long limit =
        parse_int(invocation.has("limit") ? invocation.get("limit") : "50").value_or(50);
    Json rows = Json::array();
    while ((long long)(rows.size()) < limit) {
        input["MaxResults"] = std::min<long long>(100, limit - (long long)(rows.size()));
        input["SortBy"] = "CreationTime";
        input["SortOrder"] = "Descending";
        const Json page = api.call("SageMaker.ListTrainingJobs", input);
        for (const Json& row : page.at("TrainingJobSummaries")) rows.push_back(row);
        if (!page.contains("NextToken")) break;
        input["NextToken"] = page.at("NextToken");
    }
    return rows;
}

int run_jobs(const Invocation& invocation) {
    ApiClient api = connect(invocation);
    const Json rows = fetch(api, invocation);
    if (invocation.has("names")) {
        for (const Json& row : rows) print(row.at("TrainingJobName").get<std::string>() + "\n");
        return kOk;
    }
    if (invocation.get("output") == "json") {
        print(dump_json_pretty(rows) + "\n");
        return kOk;
    }
    if (rows.empty()) {
        progress("no jobs yet\n");
        return kOk;
    }
    std::vector<std::vector<std::string>> cells;
    for (const Json& row : rows) {
        const double created = row.at("CreationTime").get<double>();
        const double ended = row.value("TrainingEndTime", row.at("LastModifiedTime").get<double>());
        cells.push_back({row.at("TrainingJobName").get<std::string>(),
                         row.at("TrainingJobStatus").get<std::string>(),
                         row.value("SecondaryStatus", "-"), show_time(created),
                         show_duration((long long)(ended - created))});
    }
    print(render_table({"NAME", "STATUS", "PHASE", "CREATED (UTC)", "TOOK"}, cells));
    return kOk;
}

}  // namespace

Verb jobs_verb() {
    return {.name = "jobs",
            .summary = "list training jobs, newest first",
            .options =
                {{.flags = "--status",
                  .help = "only jobs in this status",
                  .value = "STATUS",
                  .choices = {"InProgress", "Completed", "Failed", "Stopping", "Stopped"}},
                 {.flags = "--name-contains",
                  .help = "only jobs whose name contains the text",
                  .value = "TEXT"},
                 {.flags = "--limit", .help = "at most so many", .value = "N", .otherwise = "50"},
                 {.flags = "--names", .help = "print names only"}},
            .run = run_jobs};
}

}  // namespace ty::cli
