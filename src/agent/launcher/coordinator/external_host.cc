// SPDX-License-Identifier: Apache-2.0
// Hosts an elastic job's coordinator for tests/launcher, as the job's network process does for
// real: `external_host ID TOKEN MIN:MAX EXPECTED RESTARTS PORT`. Says its port, then every note,
// one JSON line each; ends when its standard input does.
#include "agent/launcher/coordinator/coordinator_host.h"
#include "agent/launcher/coordinator/external.h"
#include "agent/launcher/launch.h"
#include "agent/launcher/link/endpoints.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

using namespace ty;
using namespace ty::agent;

namespace {

int number(const char* text) {
    return static_cast<int>(parse_int(text).value_or(-1));
}

void say(const std::string& what, const Json& fields) {
    sys::write_all(STDOUT_FILENO, dump_json(Json{{"what", what}, {"fields", fields}}) + "\n");
}

int host(char** words) {
    const std::vector<std::string> range = split(words[3], ':');
    const ElasticJob job{.id = words[1],
                         .token = words[2],
                         .min_nodes = number(range.at(0).c_str()),
                         .max_nodes = number(range.at(1).c_str()),
                         .expected_nodes = number(words[4]),
                         .max_restarts = number(words[5])};
    const sys::Fd listener = bind_port(static_cast<std::uint16_t>(number(words[6])), true);
    if (!listener.is_open() || !start_listening(listener.get())) {
        throw_error(Code::conflict, "", "port {} is taken", words[6]);
    }
    sys::Poller poller;
    bool over = false;
    poller.add(STDIN_FILENO, [&over] { over = true; });
    CoordinatorHost coordinator(poller, "/proc/self/exe", external_coordinator(job),
                                {listener.get()},
                                {.on_note =
                                     [](const rendezvous::Effects::Note& note) {
                                         Json fields = Json::object();
                                         for (const auto& [key, value] : note.fields)
                                             fields[key] = value;
                                         say(note.what, fields);
                                     },
                                 .on_hopeless = [&over](const std::string&) { over = true; }});
    say("listening", {{"port", bound_port(listener.get())}});
    coordinator.launch();
    while (!over) poller.run_once(Deadline::never(), {});
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 2 && std::string_view(argv[1]) == "coordinate") return coordinator_main();
        if (argc > 1 && std::string_view(argv[1]) == "launch") {
            return launch_main({argv + 2, argv + argc});
        }
        if (argc == 7) return host(argv);
    } catch (const std::exception& error) {
        sys::write_all(STDERR_FILENO, format("external_host: {}\n", error.what()));
    }
    return 2;
}
