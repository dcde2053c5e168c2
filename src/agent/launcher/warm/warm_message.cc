// SPDX-License-Identifier: Apache-2.0
// Recipes are judged, messages are sent whole or not at all.
#include "agent/launcher/warm/warm_message.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace ty::agent::warm {

namespace {

using namespace std::string_view_literals;

/// What the launcher sets anew for each generation. Everything else is compared beforehand: native
/// code reads variables when it is loaded, which nobody can observe.
bool is_per_generation(std::string_view name) {
    constexpr std::array kNames = {"RANK"sv, "WORLD_SIZE"sv};
    constexpr std::array kFamilies = {"MASTER_"sv,       "GROUP_"sv, "ROLE_"sv,
                                      "TORCHELASTIC_"sv, "LOCAL_"sv, "TRAINYARD_"sv};
    return std::ranges::find(kNames, name) != kNames.end() ||
           std::ranges::any_of(
               kFamilies, [name](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

std::string_view name_of(std::string_view variable) {
    return variable.substr(0, variable.find('='));
}

std::set<std::string> lasting(const std::vector<std::string>& env) {
    std::set<std::string> result;
    for (const std::string& variable : env) {
        if (!is_per_generation(name_of(variable))) result.insert(variable);
    }
    return result;
}

std::optional<std::string> value_of(const std::vector<std::string>& env, std::string_view name) {
    for (const std::string& variable : env) {
        if (name_of(variable) == name && variable.size() > name.size())
            return variable.substr(name.size() + 1);
    }
    return std::nullopt;
}

std::string reason_against(const WarmRecipe& recipe) {
    if (recipe.argv.size() < 3) return "not a script run by Python";
    const std::string program = sys::fs::path(recipe.argv[0]).filename();
    const std::optional<std::string> chosen = value_of(recipe.env, "PYTHON_EXEC");
    if (!program.starts_with("python") && recipe.argv[0] != chosen)
        return format("{} is not called python", recipe.argv[0]);
    if (recipe.argv[1] != "-u") return "the interpreter is not started with -u";
    if (recipe.argv[2] == "-m") return recipe.argv.size() > 3 ? "" : "-m names no module";
    if (recipe.argv[2].starts_with("-")) return format("option {} of Python", recipe.argv[2]);
    return "";
}

std::string joined(const std::vector<std::string>& texts) {
    std::string result;
    for (const std::string& text : texts) {
        if (!result.empty()) result += '\0';
        result += text;
    }
    return result;
}

bool send_message(int socket, std::string_view text, std::span<const int> fds) {
    iovec part = {const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        TY_ASSERT(fds.size() <= 3);
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    ssize_t sent = -1;
    do {
        sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(text.size());
}

std::optional<Answer> receive_answer(int socket) {
    std::array<char, 8192> buffer;
    ssize_t got = -1;
    do {
        got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got <= 0) return Answer{};
    const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    const std::size_t end = text.find('\0');
    Answer answer{std::string(text.substr(0, end)), ""};
    if (end != std::string_view::npos) answer.detail = text.substr(end + 1);
    std::ranges::replace(answer.detail, '\0', ' ');
    std::ranges::replace(answer.detail, '\n', ' ');
    return answer;
}

}  // namespace ty::agent::warm
