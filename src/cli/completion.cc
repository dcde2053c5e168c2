// SPDX-License-Identifier: Apache-2.0
// Completion scripts written from the verb table, so that they know every verb and flag there is.
#include "base/format.h"
#include "base/text.h"
#include "cli/verb.h"

namespace ty::cli {

namespace {

std::string flags_of(const Verb& verb) {
    std::vector<std::string> flags;
    const auto collect = [&](const std::vector<Option>& options) {
        for (const Option& option : options)
            for (const std::string& flag : split(option.flags, ',')) flags.push_back(flag);
    };
    collect(verb.options);
    collect(common_options());
    return join(flags, " ");
}

bool takes_job(const Verb& verb) {
    return !verb.arguments.empty() && verb.arguments.front().is_job;
}

constexpr std::string_view kListJobs = "trainyard jobs --names 2>/dev/null";

std::string bash_script(const std::vector<Verb>& verbs) {
    std::string names, cases;
    for (const Verb& verb : verbs) {
        names += (names.empty() ? "" : " ") + verb.name;
        cases += format("        {}) flags=\"{}\"; jobs={} ;;\n", verb.name, flags_of(verb),
                        takes_job(verb) ? "1" : "");
    }
    return format(R"(_trainyard() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" flags="" jobs=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "{}" -- "$current")
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{}    esac
    if [[ "$current" == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [ -n "$jobs" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$({})" --"$current") fi
}
}
complete -o default -F _trainyard trainyard
)",
                  names, cases, kListJobs);
}

std::string zsh_script(const std::vector<Verb>& verbs) {
    std::string names, cases;
    for (const Verb& verb : verbs) {
        names += format("        '{}:{}'\n", verb.name, replace_all(verb.summary, "'", "'\\''"));
        cases += format("        {}) flags=({}); jobs={} ;;\n", verb.name, flags_of(verb),
                        takes_job(verb) ? "1" : "''");
    }
    return format(R"(#compdef trainyard
_trainyard() {{
    local -a verbs flags names
    local jobs=''
    verbs=(
{}    )
    if (( CURRENT == 2 )); then
        _describe 'command' verbs
        return
    fi
    case "$words[2]" in
{}    esac
    if [[ "$PREFIX" == -* ]]; then
        compadd -- $flags
    elif [[ -n "$jobs" ]]; then
        names=(${{(f)"$({})"}})
        compadd -- $names
    fi
}
}
compdef _trainyard trainyard
)",
                  names, cases, kListJobs);
}

}  // namespace

std::string completion_script(const std::vector<Verb>& verbs, const std::string& shell) {
    return shell == "zsh" ? zsh_script(verbs) : bash_script(verbs);
}

}  // namespace ty::cli
