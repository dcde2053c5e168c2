// SPDX-License-Identifier: Apache-2.0
#include "agent/elastic_hook.h"

#include "base/error.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kLongestLine = 16u << 10;
constexpr milliseconds kDrain = 10s;  ///< for finish(): an answer may still be in the making

/// A socket's path may have 107 bytes, a job's folder any number: the folder is named by its
/// descriptor.
sys::Fd listen_in(const sys::fs::path& folder, const std::string& name) {
    const sys::Fd place = sys::open_dir(folder);
    const std::string path = format("/proc/self/fd/{}/{}", place.get(), name);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        throw_error(Code::internal, "SocketPath", "the name {} is too long for a socket", name);
    path.copy(address.sun_path, path.size());
    sys::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener.is_open()) throw_errno("make the launcher's socket");
    (void)::unlink(path.c_str());
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(path.c_str(), 0666) != 0 || ::listen(listener.get(), 8) != 0) {
        throw_errno("listen at {}", (folder / name).string());
    }
    return listener;
}

}  // namespace

ElasticHook::ElasticHook(const sys::fs::path& folder, const std::string& name, Callbacks callbacks)
    : callbacks_(std::move(callbacks)), listener_(listen_in(folder, name)) {
    tasks_.start("launcher-hook", [this](const std::stop_token& stop) { work(stop); });
}

ElasticHook::~ElasticHook() {
    tasks_.stop_and_join();
}

bool ElasticHook::leave(milliseconds within, const std::string& why) {
    std::string reason = why;
    std::ranges::replace_if(
        reason, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    const std::string line = format("leave {} {}\n", within.count(), reason);
    return state_.with([&](const State& state) {
        return state.connection >= 0 &&
               ::send(state.connection, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                   static_cast<ssize_t>(line.size());
    });
}

void ElasticHook::finish() {
    // The box is gone, so a connection there was is at its end: what it holds is read to there.
    state_.with([](State& state) { state.over = true; });
    state_.notify();
    (void)state_.wait(
        Deadline::in(kDrain), {}, [](const State& state) { return state.connection < 0; },
        [](const State&) { return 0; });
    tasks_.stop_and_join();
}

void ElasticHook::work(const std::stop_token& stop) {
    while (sys::wait(listener_.get(), sys::Readiness::readable, Deadline::never(), stop) ==
           sys::Waited::ready) {
        const sys::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection.is_open()) continue;
        state_.with([&](State& state) { state.connection = connection.get(); });
        const Result<std::monostate> done = capture([&] { converse(connection, stop); });
        state_.with([](State& state) { state.connection = -1; });
        state_.notify();
        if (!done.ok())
            log::info("the conversation with the launcher ended", {{"why", done.error().what()}});
    }
}

void ElasticHook::converse(const sys::Fd& connection, const std::stop_token& stop) {
    std::string partial;
    std::array<std::byte, 4096> buffer;
    while (sys::wait(connection.get(), sys::Readiness::readable, Deadline::never(), stop) ==
           sys::Waited::ready) {
        const std::size_t got = sys::read_some(connection.get(), buffer);
        if (got == 0) return;
        partial.append(reinterpret_cast<const char*>(buffer.data()), got);
        for (std::size_t end; (end = partial.find('\n')) != std::string::npos;) {
            const std::string line = partial.substr(0, end);
            partial.erase(0, end + 1);
            take_line(connection, line);
        }
        if (partial.size() > kLongestLine)
            throw_error(Code::invalid, "LauncherLine", "a line of {} bytes", partial.size());
    }
}

void ElasticHook::take_line(const sys::Fd& connection, const std::string& line) {
    const std::vector<std::string> words = split(line, ' ');
    const auto generation = words.size() > 1 ? parse_int(words[1]) : std::nullopt;
    if (!generation) {
        // The program may write here as well as its launcher: it is told, and nothing else happens.
        answer(connection, "failed \"" + to_valid_utf8(truncate_utf8(line, 100)) +
                               "\" is no line of the launcher's");
    } else if (words[0] == "stopped") {
        const Result<std::monostate> done = capture([&] { callbacks_.on_stopped(*generation); });
        if (!done.ok())
            callbacks_.say(
                std::string("the checkpoint of the workers that ended was not stored: ") +
                done.error().what());
        answer(connection, "ok");
    } else if (words[0] == "starting") {
        const Result<std::monostate> done = capture([&] { callbacks_.on_starting(*generation); });
        answer(connection, done.ok() ? "ok" : std::string("failed ") + done.error().what());
    } else if (words[0] == "running") {
        const auto nodes = words.size() > 2 ? parse_int(words[2]) : std::nullopt;
        nodes_ = static_cast<int>(std::clamp(nodes.value_or(0), 0LL, 1'000'000LL));
        callbacks_.on_changed({*generation, nodes_, true, {}});
    } else if (words[0] == "ended") {
        const std::size_t at = words[0].size() + words[1].size() + 2;
        callbacks_.on_changed({*generation, nodes_, false,
                               line.size() > at ? to_valid_utf8(line.substr(at, 200)) : ""});
    }
}

void ElasticHook::answer(const sys::Fd& connection, const std::string& line) {
    std::string text = line;
    std::ranges::replace(text, '\n', ' ');
    text += '\n';
    // It may be gone; then nobody is left to tell.
    (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace ty::agent
