// SPDX-License-Identifier: Apache-2.0
// Private to the pool of standbys: which command lines and environments suit one, and the messages
// to hook/sitecustomize.py, which describes the conversation.
#pragma once

#include "agent/launcher/warm/warm_pool.h"

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent::warm {

/// The part of an environment that a standby cannot change any more: all but what the launcher sets
/// anew for each generation.
std::set<std::string> lasting(const std::vector<std::string>& env);
std::string_view name_of(std::string_view variable);
std::optional<std::string> value_of(const std::vector<std::string>& env, std::string_view name);
/// Empty: this command line can be warmed.
std::string reason_against(const WarmRecipe& recipe);

/// Texts as one message, separated by NUL.
std::string joined(const std::vector<std::string>& texts);
/// One message with at most three descriptors, without waiting; false when the other side is gone
/// or the message does not fit.
bool send_message(int socket, std::string_view text, std::span<const int> fds = {});

struct Answer {
    std::string word;  ///< empty: the other side is gone
    std::string detail;
};
/// nullopt: nothing there yet.
std::optional<Answer> receive_answer(int socket);

}  // namespace ty::agent::warm
