// SPDX-License-Identifier: Apache-2.0
// The trainyard command: parse, run one verb, explain what went wrong. Talks only HTTP to the
// daemon.
#include "base/log.h"
#include "cli/explain.h"
#include "cli/render.h"
#include "cli/verb.h"
#include "sys/sys.h"

int main(int argc, char** argv) {
    using namespace ty;
    sys::ignore_sigpipe();
    const std::vector<cli::Verb> verbs = cli::all_verbs();
    const cli::Parsed parsed = cli::parse_command_line(verbs, argc, argv);
    if (parsed.verb == nullptr) return parsed.exit_code;
    try {
        return parsed.verb->run(parsed.invocation);
    } catch (const Error& error) {
        std::string what = parsed.verb->name;
        for (const auto& [name, value] : parsed.invocation.arguments) what += " " + value;
        const cli::Explanation explanation = cli::explain(error, what);
        cli::progress(explanation.text);
        return explanation.exit_code;
    } catch (const std::exception& error) {
        cli::progress(format("trainyard: internal error: {}\n", error.what()));
        return cli::kFailure;
    }
}
