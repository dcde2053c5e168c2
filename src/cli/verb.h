// SPDX-License-Identifier: Apache-2.0
// What a verb of the command line is: a row of data and one function. Parsing, help and shell
// completion all come from the same rows.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ty::cli {

struct Option {
    std::string flags;  ///< "-f,--follow"
    std::string help;
    std::string value;      ///< placeholder, "DIR"; empty: a switch
    std::string otherwise;  ///< default, shown in help
    std::vector<std::string> choices;
};

struct Argument {
    std::string name;  ///< "JOB"
    std::string help;
    bool required = true;
    bool is_job = false;  ///< completed with the names of jobs
    std::vector<std::string> choices = {};
};

/// Parsed command line of one verb. Options are keyed by their long name without dashes.
struct Invocation {
    std::map<std::string, std::string> options;
    std::map<std::string, std::string> arguments;
    std::vector<std::string> words;  ///< of a verb with its own grammar: everything behind its name
    bool has(const std::string& name) const { return options.contains(name); }
    std::string get(const std::string& name) const;
    std::string argument(const std::string& name) const;
};

/// Documented in docs/reference/cli.md; stable.
enum ExitCode {
    kOk = 0,
    kFailure = 1,
    kUsage = 2,
    kNotFound = 3,
    kUnreachable = 4,  ///< the daemon does not answer
    kDenied = 5,
    kJobFailed = 20,   ///< logs --follow: the job failed
    kJobStopped = 21,  ///< logs --follow: the job was stopped
};

struct Verb {
    std::string name;
    std::string summary;
    std::vector<Argument> arguments;
    std::vector<Option> options;
    int (*run)(const Invocation& invocation) = nullptr;
    bool own_grammar = false;  ///< the verb reads Invocation::words itself
};

/// Every verb, by name; generated.
std::vector<Verb> all_verbs();

/// Options every verb has.
std::vector<Option> common_options();

/// Reads argv into the verb and its invocation, or prints help/errors and returns the exit code.
struct Parsed {
    const Verb* verb = nullptr;
    Invocation invocation;
    int exit_code = kOk;  ///< meaningful when verb is null
};
Parsed parse_command_line(const std::vector<Verb>& verbs, int argc, const char* const* argv);

/// The completion script for "bash" or "zsh".
std::string completion_script(const std::vector<Verb>& verbs, const std::string& shell);

}  // namespace ty::cli
