// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/options/elastic.h"

#include "base/error.h"

#include <algorithm>
#include <array>

namespace ty::agent {

namespace {

enum class Needed { yes, no };

struct Variable {
    const char* name;
    std::string_view flag;  ///< whose place it takes; empty: of none
    Needed needed = Needed::no;
};

constexpr std::array kVariables = {
    Variable{kElasticNodes, "nnodes", Needed::yes},
    Variable{"TRAINYARD_RDZV_ENDPOINT", "rdzv-endpoint", Needed::yes},
    Variable{"TRAINYARD_RDZV_ID", "rdzv-id", Needed::yes},
    Variable{"TRAINYARD_RDZV_TOKEN", "", Needed::yes},
    Variable{"TRAINYARD_NODE_SLOT", "node-rank"},
    Variable{"TRAINYARD_MAX_RESTARTS", "max-restarts"},
    Variable{"TRAINYARD_CHECKPOINT_DIR", "checkpoint-dir"},
    Variable{kNodeSocket, ""},
};

/// Places, and what the coordinator has been told already.
constexpr std::array<std::string_view, 8> kMeaningless = {
    "standalone",      "master-addr",      "master-port", "node-rank",
    "rdzv-token-file", "restart-counting", "budget",      "resize"};

class Changes {
public:
    explicit Changes(SplitLine& line) : line_(line) {}

    void put(std::string_view flag, std::string text, std::string where) {
        const auto found = line_.values.find(flag);
        if (found != line_.values.end() && found->second.text != text) {
            say(format("{} {} becomes {}", found->second.where, found->second.text, text));
        }
        line_.values.insert_or_assign(std::string(flag),
                                      GivenValue{std::move(text), std::move(where)});
    }
    void drop(std::string_view flag) {
        const auto found = line_.values.find(flag);
        if (found == line_.values.end()) return;
        say(format("{} does not count", found->second.where));
        line_.values.erase(found);
    }
    std::string take() { return std::move(said_); }

private:
    void say(const std::string& text) { said_ += (said_.empty() ? "" : ", ") + text; }
    SplitLine& line_;
    std::string said_;
};

}  // namespace

std::string take_membership(SplitLine& line, EnvLookup env) {
    Changes changes(line);
    for (const Variable& variable : kVariables) {
        const std::optional<std::string> text = env(variable.name);
        const bool is_given = text && !text->empty();
        if (!is_given && variable.needed == Needed::yes) {
            throw_error(Code::invalid, "CommandLine",
                        "{} is set and {} is not; an elastic job's agent sets both, so unset the "
                        "first to launch something else",
                        kElasticNodes, variable.name);
        }
        if (is_given && !variable.flag.empty()) {
            changes.put(variable.flag, *text, variable.name);
        }
    }
    changes.put("rdzv-backend", "c10d", kElasticNodes);
    for (const std::string_view flag : kMeaningless) {
        const auto found = line.values.find(flag);
        const bool is_ours =
            found != line.values.end() && found->second.where.starts_with("TRAINYARD_");
        if (!is_ours) changes.drop(flag);
    }
    return changes.take();
}

bool is_membership(std::string_view variable) {
    // A folder stays where it is, whoever looks for it.
    return variable != "TRAINYARD_CHECKPOINT_DIR" &&
           std::ranges::any_of(kVariables,
                               [variable](const Variable& one) { return one.name == variable; });
}

}  // namespace ty::agent
