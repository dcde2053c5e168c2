// SPDX-License-Identifier: Apache-2.0
#include "engine/local/run_folder.h"

#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ty::engine {

namespace fs = std::filesystem;

namespace {

struct flock whole_file() {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

/// New content or old, never a mix; no fsync (see the header).
void replace_file(const fs::path& path, std::string_view content, unsigned mode) {
    const std::string temporary = path.string() + ".new";
    sys::write_file(temporary, content, mode);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
        throw_errno("rename {} to {}", temporary, path.string());
}

std::optional<ProcessId> parse_pid_file(const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return std::nullopt;
    auto text = capture([&] { return sys::read_file(path, Bytes(256)); });
    if (!text.ok()) return std::nullopt;
    std::string content = std::move(text).value();
    for (char& c : content)
        if (c == '\n' || c == '\t') c = ' ';
    std::vector<std::string> words;
    for (std::string& word : split(content, ' '))
        if (!word.empty()) words.push_back(std::move(word));
    if (words.empty()) return std::nullopt;
    const auto pid = parse_int(words[0]);
    const auto ticks = words.size() > 1 ? parse_int(words[1]) : std::optional<long long>(0);
    if (!pid || *pid <= 1 || *pid > 1 << 22 || !ticks) return std::nullopt;
    return ProcessId{static_cast<int>(*pid), *ticks};
}

}  // namespace

bool is_alive(const ProcessId& process) {
    sys::ProcessStat stat;
    if (process.pid <= 1 || !sys::read_process(process.pid, stat)) return false;
    if (stat.state == 'Z' || stat.state == 'X') return false;
    return process.start_ticks == 0 || stat.start_ticks == process.start_ticks;
}

sys::Fd watch_process(const ProcessId& process) {
    if (!is_alive(process)) return {};
    sys::Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    // Looked at again: the number may have changed hands between the two calls.
    if (!fd.is_open() || !is_alive(process)) return {};
    return fd;
}

void RunFolder::create() const {
    std::error_code failed;
    fs::create_directories(path_, failed);
    if (failed) throw errno_error(failed.value(), "create folder " + path_.string());
    ::chmod(path_.c_str(), 0700);
}

void RunFolder::write_start(const AttemptId& attempt, const AgentStart& start,
                            const fs::path& network, const std::vector<int>& gpus) const {
    Json json = Json::object();
    json["control_plane"] = start.control_plane;
    json["token"] = start.token;
    json["host"] = start.host;
    json["attempt"] = attempt.str();
    json["network"] = network.string();
    json["gpus"] = gpus;
    replace_file(path_ / "start.json", dump_json(json), 0600);
}

void RunFolder::write_network(const Network& network, const std::string& control_plane) const {
    Json json = Json::object();
    json["hosts"] = network.hosts;
    json["rendezvous"] = network.rendezvous.empty() ? Json() : parse_json(network.rendezvous);
    json["control_plane"] = control_plane;
    replace_file(path_ / "network.json", dump_json(json), 0600);
}

std::vector<int> RunFolder::read_gpus() const {
    const auto read = capture([&] {
        const Json json = parse_json(sys::read_file(path_ / "start.json"));
        std::vector<int> gpus;
        for (const Json& one : json.value("gpus", Json::array()))
            if (one.is_number_integer()) gpus.push_back(one.get<int>());
        return gpus;
    });
    return read.ok() ? Result<std::vector<int>>(read).value() : std::vector<int>();
}

sys::Fd RunFolder::lock() const {
    const fs::path path = path_ / "engine.lock";
    sys::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.is_open()) throw_errno("open lock file {}", path.string());
    // An open file description lock belongs to the descriptor, not to the process: the agent that
    // inherits it goes on holding it when we have closed ours.
    struct flock lock = whole_file();
    if (::fcntl(fd.get(), F_OFD_SETLK, &lock) == 0) return fd;
    if (errno == EAGAIN || errno == EACCES) return {};
    throw_errno("lock {}", path.string());
}

bool RunFolder::is_locked() const {
    return sys::is_locked(path_ / "engine.lock");
}

void RunFolder::write_pid(const ProcessId& process) const {
    replace_file(path_ / "engine.pid", fmt::format("{} {}\n", process.pid, process.start_ticks),
                 0600);
}

std::optional<ProcessId> RunFolder::read_pid() const {
    const auto ours = parse_pid_file(path_ / "engine.pid");
    return ours ? ours : parse_pid_file(path_ / "agent.pid");
}

sys::Fd RunFolder::open_log() const {
    return sys::open_write(path_ / "agent.log", O_APPEND, 0600);
}

}  // namespace ty::engine
