// SPDX-License-Identifier: Apache-2.0
// trainyard-agent: everything that happens on a node.
#include "agent/agent.h"
#include "agent/launcher/launch.h"
#include "agent/launcher/link/link.h"
#include "agent/mpi/mpi.h"
#include "agent/network/network_main.h"
#include "agent/sandbox/box.h"
#include "agent/sandbox/sandbox.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kUsage =
    "usage: trainyard-agent run <folder> | network <folder> | launch ... | box | probe | version\n"
    "run is started by trainyardd; <folder> holds start.json. launch is `trainyard run`. probe "
    "says "
    "which sandbox this machine allows.\n";

int probe() {
    const ty::agent::ProbeResult result = ty::agent::Probe().finish();
    const bool boxed = result.rung == ty::agent::Rung::namespaces;
    const ty::Json document = {
        {"rung", ty::agent::to_string(result.rung)},
        {"root", result.real_root},
        {"why", result.why},
        {"no_network", boxed ? ty::agent::why_no_network() : "that takes namespaces"}};
    ty::sys::write_all(1, ty::dump_json(document) + "\n");
    return 0;
}

int dispatch(const std::vector<std::string_view>& words) {
    if (words.size() == 2 && words[0] == "run")
        return ty::agent::run_agent(ty::sys::fs::path(words[1]));
    if (words.size() == 2 && words[0] == "network")
        return ty::agent::network_main(ty::sys::fs::path(words[1]));
    if (!words.empty() && words[0] == "launch") {
        return ty::agent::launch_main({words.begin() + 1, words.end()});
    }
    if (!words.empty() && words[0] == "mpi-run")
        return ty::agent::mpi_run_main({words.begin() + 1, words.end()});
    if (!words.empty() && words[0] == "rsh-serve")
        return ty::agent::rsh_serve_main({words.begin() + 1, words.end()});
    if (!words.empty() && words[0] == "rsh")
        return ty::agent::rsh_main({words.begin() + 1, words.end()});
    if (words.size() == 1 && words[0] == "coordinate") return ty::agent::coordinator_main();
    if (words.size() == 1 && words[0] == "box") ty::agent::leave(ty::agent::box_main());
    if (words.size() == 2 && words[0] == "box" && words[1] == "--probe") {
        ty::agent::leave(ty::agent::box_probe_main());
    }
    if (words.size() == 1 && words[0] == "probe") return probe();
    if (words.size() == 1 && words[0] == "version") {
        ty::sys::write_all(
            1, ty::format("trainyard-agent {} (plan {})\n", TY_VERSION, ty::plan::kPlanVersion));
        return 0;
    }
    ty::sys::write_all(2, kUsage);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        // A box of an elastic job finds us as "torchrun" in its PATH.
        const std::string_view name = argc > 0 ? argv[0] : "";
        if (name.substr(name.rfind('/') + 1) == "torchrun") {
            return ty::agent::launch_main({argv + 1, argv + argc});
        }
        return dispatch({argv + 1, argv + argc});
    } catch (const ty::Error& error) {
        ty::log::error("agent failed", {{"error", error.what()}});
    } catch (const std::exception& error) {
        ty::log::error("agent failed", {{"error", error.what()}});
    }
    return 1;
}
