// SPDX-License-Identifier: Apache-2.0
#include "cli/home.h"

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cstdlib>

namespace ty::cli {

sys::fs::path sibling_binary(const std::string& name) {
    return sys::fs::read_symlink("/proc/self/exe").parent_path() / name;
}

sys::fs::path home_of(const Invocation& invocation) {
    std::string home = invocation.get("home");
    if (home.empty()) {
        const char* set = std::getenv("TRAINYARD_HOME");
        if (set != nullptr && *set != '\0') home = set;
    }
    if (home.empty()) {
        const char* user = std::getenv("HOME");
        if (user == nullptr || *user == '\0')
            throw_error(Code::invalid, "",
                        "neither --home nor $TRAINYARD_HOME nor $HOME is set; pass --home DIR");
        home = std::string(user) + "/.trainyard";
    }
    return sys::fs::absolute(home);
}

std::optional<DaemonInfo> read_daemon(const sys::fs::path& home) {
    const sys::fs::path path = home / "daemon.json";
    std::error_code ignored;
    if (!sys::fs::exists(path, ignored)) return std::nullopt;
    try {
        const Json file = parse_json(sys::read_file(path));
        return DaemonInfo{.pid = file.at("pid").get<int>(),
                          .endpoint = file.at("endpoint").get<std::string>(),
                          .region = file.at("region").get<std::string>(),
                          .account = file.at("account").get<std::string>(),
                          .role = file.at("role").get<std::string>(),
                          .credentials = {.access_key = file.at("access_key").get<std::string>(),
                                          .secret_key = file.at("secret_key").get<std::string>()}};
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::corrupt, "",
                    "{} is damaged ({}); run `trainyard down` and `trainyard up`", path.string(),
                    error.what());
    }
}

DaemonInfo require_daemon(const sys::fs::path& home) {
    const auto daemon = read_daemon(home);
    if (!daemon)
        throw_error(Code::unavailable, "",
                    "no Trainyard was started for {}; start it with `trainyard up`", home.string());
    return *daemon;
}

bool is_daemon_alive(const sys::fs::path& home) {
    return sys::is_locked(home / "daemon.lock");
}

bool is_healthy(const DaemonInfo& daemon, Deadline by) {
    try {
        http::Client client(http::parse_url(daemon.endpoint));
        return client.send({.target = "/healthz"}, by).status == 200;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace ty::cli
