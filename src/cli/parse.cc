// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11.
#include "base/text.h"
#include "cli/verb.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <list>

namespace ty::cli {

std::string Invocation::get(const std::string& name) const {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : found->second;
}

std::string Invocation::argument(const std::string& name) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? std::string() : found->second;
}

std::vector<Option> common_options() {
    return {
        {.flags = "--home",
         .help = "state folder (also $TRAINYARD_HOME)",
         .value = "DIR",
         .otherwise = "~/.trainyard"},
        {.flags = "-o,--output",
         .help = "form of the output",
         .value = "FORM",
         .otherwise = "table",
         .choices = {"table", "json"}},
    };
}

namespace {

std::string long_name(const std::string& flags) {
    return flags.substr(flags.rfind("--") + 2);
}

void add_option(CLI::App& app, const Option& option, std::list<std::string>& values,
                std::map<std::string, CLI::Option*>& found) {
    values.emplace_back();
    CLI::Option* added = nullptr;
    if (option.value.empty()) {
        added = app.add_flag(option.flags, option.help);
    } else {
        added = app.add_option(option.flags, values.back(), option.help)->type_name(option.value);
        if (!option.otherwise.empty()) added->default_str(option.otherwise);
        if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
    }
    found[long_name(option.flags)] = added;
}

}  // namespace

Parsed parse_command_line(const std::vector<Verb>& verbs, int argc, const char* const* argv) {
    for (const Verb& verb : verbs) {
        if (!verb.own_grammar || argc < 2 || verb.name != argv[1]) continue;
        return {.verb = &verb, .invocation = {.words = {argv + 2, argv + argc}}};
    }
    CLI::App app("Trainyard runs SageMaker training jobs on this machine.", "trainyard");
    app.require_subcommand(1);
    app.set_version_flag("--version", "trainyard 0.1.0");
    app.failure_message(CLI::FailureMessage::help);
    std::list<std::string> values;  // stable addresses for CLI11 to write to
    struct Bound {
        const Verb* verb;
        CLI::App* app;
        std::map<std::string, CLI::Option*> options, arguments;
    };
    std::list<Bound> bound;
    for (const Verb& verb : verbs) {
        CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
        Bound& entry = bound.emplace_back(Bound{.verb = &verb, .app = sub});
        for (const Argument& argument : verb.arguments) {
            CLI::Option* option =
                sub->add_option(argument.name, values.emplace_back(), argument.help);
            if (argument.required) option->required();
            if (!argument.choices.empty()) option->check(CLI::IsMember(argument.choices));
            entry.arguments[argument.name] = option;
        }
        for (const Option& option : verb.options) add_option(*sub, option, values, entry.options);
        for (const Option& option : common_options())
            add_option(*sub, option, values, entry.options);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return {.exit_code = code == 0 ? kOk : kUsage};
    }
    Parsed parsed;
    for (const Bound& entry : bound) {
        if (!entry.app->parsed()) continue;
        parsed.verb = entry.verb;
        for (const auto& [name, option] : entry.options)
            if (option->count() > 0)
                parsed.invocation.options[name] =
                    option->results().empty() ? "true" : option->results().back();
        for (const auto& [name, option] : entry.arguments)
            if (option->count() > 0) parsed.invocation.arguments[name] = option->results().front();
    }
    return parsed;
}

}  // namespace ty::cli
