// SPDX-License-Identifier: Apache-2.0
// A command line split by argparse's rules (Python 3.11, the version torchrun is compared with).
//
// One deliberate difference: words after the script are never looked at, while argparse refuses
// `torchrun train.py --rdzv` because --rdzv would be ambiguous before the script.
#include "agent/launcher/options/flags.h"
#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

[[noreturn]] void fail(std::string message) {
    throw Error(Code::invalid, "CommandLine", std::move(message));
}

std::string dashed(std::string_view text) {
    return replace_all(text, "_", "-");
}

const Flag* find_letter(char letter) {
    for (const Flag& flag : launch_flags()) {
        if (flag.letter == letter && letter != 0) return &flag;
    }
    return nullptr;
}

std::string all_names(const std::vector<const Flag*>& flags) {
    std::string text;
    for (const Flag* flag : flags) text += format("{}--{}", text.empty() ? "" : ", ", flag->name);
    return text;
}

[[noreturn]] void fail_unknown(const std::string& word) {
    const std::string name = dashed(std::string_view(word).substr(0, word.find('=')));
    std::vector<std::string> names = {"--help"};
    for (const Flag& flag : launch_flags()) names.push_back(format("--{}", flag.name));
    const std::string near = nearest(name, names, 1).front();
    // Typing errors rarely hit the first letter; a guess that shares nothing only confuses.
    const bool similar = near.substr(0, 3) == name.substr(0, 3);
    fail(format("unrecognized arguments: {}; {}a flag of the script goes after the script", word,
                similar ? format("did you mean {}? ", near) : std::string()));
}

/// The flag that `--name` means, whole or abbreviated; throws when there is none or several.
const Flag& find_long(const std::string& word) {
    const std::string name = dashed(std::string_view(word).substr(2, word.find('=') - 2));
    std::vector<const Flag*> torchrun, ours;
    for (const Flag& flag : launch_flags()) {
        if (flag.name == name) return flag;
        if (!flag.name.starts_with(name)) continue;
        (flag.origin == Origin::torchrun ? torchrun : ours).push_back(&flag);
    }
    const auto& found = torchrun.empty() ? ours : torchrun;
    if (found.empty()) fail_unknown(word);
    if (found.size() > 1) {
        fail(format("ambiguous option: {} could match {}; write it out", word, all_names(found)));
    }
    return *found.front();
}

/// -5 and -.5 are values, not flags: torchrun has no flag that looks like a number.
bool looks_like_number(std::string_view word) {
    word.remove_prefix(1);
    const std::size_t dot = word.find('.');
    const auto digits = [](std::string_view text) {
        return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (dot == word.npos) return !word.empty() && digits(word);
    return dot + 1 < word.size() && digits(word.substr(0, dot)) && digits(word.substr(dot + 1));
}

bool is_flag(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return false;
    if (looks_like_number(word)) return false;
    if (word.find(' ') == word.npos) return true;
    // A text with spaces is a value, unless it is "--flag=some text".
    return word.starts_with("--") && word.find('=') < word.find(' ');
}

class Splitter {
public:
    Splitter(const std::vector<std::string>& words, SplitLine& out) : words_(words), out_(out) {}

    void split() {
        while (at_ < words_.size()) {
            const std::string& word = words_[at_];
            if (word == "--") {
                ++at_;
                break;
            }
            if (!is_flag(word)) break;
            ++at_;
            word.starts_with("--") ? take_long(word) : take_letters(word);
            if (out_.help) return;
        }
        out_.rest.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        // argparse drops one -- right after the script, unless one stood before it.
        const bool separated = at_ > 0 && words_[at_ - 1] == "--";
        if (!separated && out_.rest.size() > 1 && out_.rest[1] == "--") {
            out_.rest.erase(out_.rest.begin() + 1);
        }
    }

private:
    void take_long(const std::string& word) {
        const std::size_t equals = word.find('=');
        const std::string name = dashed(std::string_view(word).substr(2, equals - 2));
        if (!name.empty() && std::string_view("help").starts_with(name)) {
            out_.help = true;
            return;
        }
        const Flag& flag = find_long(word);
        const std::string spelling = format("--{}", flag.name);
        if (equals == word.npos) {
            out_.values[std::string(flag.name)] = {flag.meta.empty() ? "1" : value(flag), spelling};
            return;
        }
        if (flag.meta.empty()) {
            fail(format("argument {}: ignored explicit argument '{}'; it is a switch", spelling,
                        word.substr(equals + 1)));
        }
        out_.values[std::string(flag.name)] = {word.substr(equals + 1), spelling};
    }

    /// -r 3, -r3, -mr3.
    void take_letters(const std::string& word) {
        for (std::size_t i = 1; i < word.size(); ++i) {
            if (word[i] == 'h') {
                out_.help = true;
                return;
            }
            const Flag* flag = find_letter(word[i]);
            if (flag == nullptr && i == 1) fail_unknown(word);
            if (flag == nullptr) {
                fail(format("argument -{}: ignored explicit argument '{}'; it is a switch",
                            word[i - 1], word.substr(i)));
            }
            const std::string name(flag->name);
            if (flag->meta.empty()) {
                out_.values[name] = {"1", format("-{}", word[i])};
                continue;
            }
            std::string text = word.substr(i + 1);
            if (text.starts_with("=")) text.erase(0, 1);
            out_.values[name] = {i + 1 < word.size() ? text : value(*flag), format("-{}", word[i])};
            return;
        }
    }

    std::string value(const Flag& flag) {
        if (at_ >= words_.size() || words_[at_] == "--" || is_flag(words_[at_])) {
            fail(
                format("argument --{}: expected one argument: --{} {}; a value that starts with a "
                       "dash is written --{}=VALUE",
                       flag.name, flag.name, flag.meta, flag.name));
        }
        return words_[at_++];
    }

    const std::vector<std::string>& words_;
    SplitLine& out_;
    std::size_t at_ = 0;
};

std::string variable_of(const Flag& flag) {
    return "PET_" + to_upper(replace_all(flag.name, "-", "_"));
}

}  // namespace

SplitLine split_line(const std::vector<std::string>& words, EnvLookup env) {
    SplitLine line;
    for (const Flag& flag : launch_flags()) {
        if (flag.env == FromEnv::no) continue;
        const std::string variable = variable_of(flag);
        if (auto text = env(variable)) line.values[std::string(flag.name)] = {*text, variable};
    }
    Splitter(words, line).split();
    return line;
}

}  // namespace ty::agent
