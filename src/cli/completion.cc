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

std::string fill(std::string_view script, const std::string& names, const std::string& cases) {
    const std::string with_names = replace_all(script, "@names@", names);
    return replace_all(replace_all(with_names, "@cases@", cases), "@jobs@", kListJobs);
}

std::string bash_script(const std::vector<Verb>& verbs) {
    std::string names, cases;
    for (const Verb& verb : verbs) {
        names += (names.empty() ? "" : " ") + verb.name;
        cases += format("        {}) flags=\"{}\"; jobs={} ;;\n", verb.name, flags_of(verb),
                        takes_job(verb) ? "1" : "");
    }
    return fill(R"sh(_trainyard() {
    local current="${COMP_WORDS[COMP_CWORD]}" flags="" jobs=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "@names@" -- "$current")
        return
    fi
    case "${COMP_WORDS[1]}" in
@cases@    esac
    if [[ "$current" == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [ -n "$jobs" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(@jobs@)" -- "$current")
    fi
}
complete -o default -F _trainyard trainyard
)sh",
                names, cases);
}

std::string zsh_script(const std::vector<Verb>& verbs) {
    std::string names, cases;
    for (const Verb& verb : verbs) {
        names += format("        '{}:{}'\n", verb.name, replace_all(verb.summary, "'", "'\\''"));
        cases += format("        {}) flags=({}); jobs={} ;;\n", verb.name, flags_of(verb),
                        takes_job(verb) ? "1" : "''");
    }
    return fill(R"sh(#compdef trainyard
_trainyard() {
    local -a verbs flags names
    local jobs=''
    verbs=(
@names@    )
    if (( CURRENT == 2 )); then
        _describe 'command' verbs
        return
    fi
    case "$words[2]" in
@cases@    esac
    if [[ "$PREFIX" == -* ]]; then
        compadd -- $flags
    elif [[ -n "$jobs" ]]; then
        names=(${(f)"$(@jobs@)"})
        compadd -- $names
    fi
}
compdef _trainyard trainyard
)sh",
                names, cases);
}

}  // namespace

std::string completion_script(const std::vector<Verb>& verbs, const std::string& shell) {
    return shell == "zsh" ? zsh_script(verbs) : bash_script(verbs);
}

}  // namespace ty::cli
