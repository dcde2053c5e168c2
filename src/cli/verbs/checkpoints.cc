// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

/// "1.5 GB".
std::string show_size(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
    double size = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (size >= 1000 && unit + 1 < std::size(kUnits)) {
        size /= 1000;
        ++unit;
    }
    return unit == 0 ? format("{} B", bytes) : format("{:.1f} {}", size, kUnits[unit]);
}

std::string text_or_dash(const Json& row, const char* name) {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) return "-";
    return found->is_string() ? found->get<std::string>() : dump_json(*found);
}

std::string table_of(const Json& checkpoints) {
    std::vector<std::vector<std::string>> cells;
    for (const Json& row : checkpoints)
        cells.push_back(
            {row.at("id").get<std::string>(), text_or_dash(row, "step"),
             text_or_dash(row, "taken").substr(0, 19),
             row.contains("size") ? show_size(row.at("size").get<std::uint64_t>()) : "-",
             text_or_dash(row, "files"), text_or_dash(row, "node"),
             row.at("valid").get<bool>() ? "yes" : "no: " + row.value("problem", "")});
    return render_table({"ID", "STEP", "TAKEN (UTC)", "SIZE", "FILES", "NODE", "VALID"}, cells);
}

int start_one(ApiClient& api, const Invocation& invocation) {
    const std::string id = invocation.get("start");
    Json body = {{"name", invocation.get("as")}};
    if (invocation.has("uri")) body["uri"] = invocation.get("uri");
    const Json done = api.control(
        "POST",
        job_path(invocation.argument("JOB"), "/checkpoints/" + percent_encode(id) + "/start"),
        body);
    print(invocation.get("output") == "json"
              ? dump_json_pretty(done) + "\n"
              : format("{} starts from {} of {}, checkpoints at {}\n", invocation.get("as"), id,
                       invocation.argument("JOB"), done.at("uri").get<std::string>()));
    return kOk;
}

int run_checkpoints(const Invocation& invocation) {
    if (invocation.has("start") != invocation.has("as") ||
        (invocation.has("uri") && !invocation.has("start"))) {
        progress("trainyard: --start ID --as NAME belong together, and --uri to them\n");
        return kUsage;
    }
    ApiClient api = connect(invocation);
    if (invocation.has("start")) return start_one(api, invocation);
    const Json found =
        api.control("GET", job_path(invocation.argument("JOB"), "/checkpoints"), Json::object());
    if (invocation.get("output") == "json") {
        print(dump_json_pretty(found) + "\n");
    } else if (found.at("checkpoints").empty()) {
        progress(format("no checkpoints yet at {}\n", found.at("uri").get<std::string>()));
    } else {
        print(table_of(found.at("checkpoints")));
    }
    return kOk;
}

}  // namespace

Verb checkpoints_verb() {
    return {.name = "checkpoints",
            .summary = "list a job's complete checkpoints, or start a new job from one",
            .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true}},
            .options = {{.flags = "--start",
                         .help = "start a new job from this checkpoint",
                         .value = "ID"},
                        {.flags = "--as", .help = "name of the new job", .value = "NAME"},
                        {.flags = "--uri",
                         .help = "where the new job keeps its checkpoints; else beside the old",
                         .value = "S3URI"}},
            .run = run_checkpoints};
}

}  // namespace ty::cli
