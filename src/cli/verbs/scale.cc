// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "cli/client.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

namespace {

int run_scale(const Invocation& invocation) {
    const std::string text = invocation.argument("N");
    const auto count = parse_int(text);
    if (!count || *count < 1) {
        progress(format("trainyard: \"{}\" is no number of instances; give 1 or more\n", text));
        return kUsage;
    }
    ApiClient api = connect(invocation);
    const Json done = api.control("POST", job_path(invocation.argument("JOB"), "/scale"),
                                  {{"instances", *count}});
    print(invocation.get("output") == "json"
              ? dump_json_pretty(done) + "\n"
              : format("{} is to have {} instance{}\n", invocation.argument("JOB"), *count,
                       *count == 1 ? "" : "s"));
    return kOk;
}

}  // namespace

Verb scale_verb() {
    return {.name = "scale",
            .summary = "give an elastic job another number of instances while it runs",
            .arguments = {{.name = "JOB", .help = "name of the training job", .is_job = true},
                          {.name = "N", .help = "instances from now on, within the job's range"}},
            .run = run_scale};
}

}  // namespace ty::cli
