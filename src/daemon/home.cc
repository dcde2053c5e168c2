// SPDX-License-Identifier: Apache-2.0
#include "daemon/home.h"

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

namespace ty::daemon {

namespace {
constexpr std::uint16_t kDefaultPort = 4545;
constexpr milliseconds kLockPatience{1500};
constexpr milliseconds kLockLook{20};

std::uint16_t last_port(const sys::fs::path& home) {
    try {
        const Json file = parse_json(sys::read_file(home / "daemon.json"));
        return http::parse_url(file.at("endpoint").get<std::string>()).port;
    } catch (const std::exception&) {
        return kDefaultPort;
    }  // first start, or a damaged file that is rewritten anyway
}
}  // namespace

sys::FileLock lock_home(const sys::fs::path& home) {
    sys::FileLock lock = sys::FileLock::try_acquire(home / "daemon.lock");
    // A daemon that was killed while it started an agent holds the lock on in that child until the
    // child has become the agent: a matter of moments.
    const Deadline patience = Deadline::in(kLockPatience);
    while (!lock.is_held() && !patience.passed()) {
        (void)sys::pause(Deadline::in(kLockLook), {});
        lock = sys::FileLock::try_acquire(home / "daemon.lock");
    }
    if (!lock.is_held())
        throw_error(Code::conflict, "",
                    "another daemon is using {}; stop it with `trainyard down --home {}`",
                    home.string(), home.string());
    return lock;
}

aws::Credentials load_or_create_keys(const sys::fs::path& home, Ids& ids) {
    const sys::fs::path path = home / "keys.json";
    if (sys::fs::exists(path)) {
        try {
            const Json file = parse_json(sys::read_file(path));
            return {.access_key = file.at("access_key").get<std::string>(),
                    .secret_key = file.at("secret_key").get<std::string>()};
        } catch (const nlohmann::json::exception& error) {
            throw_error(Code::corrupt, "", "{} is damaged ({}); remove it to get new keys",
                        path.string(), error.what());
        }
    }
    const aws::Credentials keys{.access_key = "TYAK" + to_upper(ids.token(16)),
                                .secret_key = ids.token(40)};
    const Json file = {{"access_key", keys.access_key}, {"secret_key", keys.secret_key}};
    sys::write_file_atomically(path, dump_json_pretty(file) + "\n", 0600);
    return keys;
}

sys::Listener open_listener(const Config& config) {
    if (config.port) return sys::Listener::tcp(config.listen, *config.port);
    try {
        return sys::Listener::tcp(config.listen, last_port(config.home));
    } catch (const Error& error) {
        if (error.reason() != "AddressInUse") throw;
        return sys::Listener::tcp(config.listen, 0);
    }
}

void announce(const Config& config, const std::string& endpoint, const aws::Credentials& keys) {
    const Json file = {{"pid", int(::getpid())},       {"endpoint", endpoint},
                       {"region", config.region},      {"account", config.account},
                       {"role", config.role},          {"access_key", keys.access_key},
                       {"secret_key", keys.secret_key}};
    sys::write_file_atomically(config.home / "daemon.json", dump_json_pretty(file) + "\n", 0600);
}

}  // namespace ty::daemon
