// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/signpost.h"

#include "base/error.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <span>

#include <sys/socket.h>

namespace ty::agent {

namespace {

constexpr milliseconds kLookAgain{250};
constexpr milliseconds kPatience{400};

/// A member of a small JSON object; nullopt when the frame is no such thing.
template <typename T>
std::optional<T> member(std::string_view frame, const char* name) {
    try {
        const Json document = parse_json(frame);
        if (!document.is_object() || !document.contains(name)) return std::nullopt;
        return document.at(name).get<T>();
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

std::string next_frame(sys::Socket& socket, FrameReader& reader, Deadline by,
                       const std::stop_token& stop) {
    std::array<char, 4096> buffer;
    while (true) {
        if (const std::optional<std::string_view> frame = reader.next()) return std::string(*frame);
        const std::size_t got = socket.read(std::as_writable_bytes(std::span(buffer)), by, stop);
        if (got == 0) throw_error(Code::unavailable, "", "the endpoint closed the connection");
        reader.append({buffer.data(), got});
    }
}

void send_frame(sys::Socket& socket, std::string_view body, Deadline by,
                const std::stop_token& stop) {
    std::string bytes;
    append_frame(bytes, body);
    socket.write(std::as_bytes(std::span(bytes)), by, stop);
}

}  // namespace

std::string moved_frame(std::string_view address) {
    return dump_json(Json{{"trainyard", 1}, {"moved", address}});
}

std::optional<std::string> read_moved(std::string_view frame) {
    return member<std::string>(frame, "moved");
}

std::string encode(const ClaimFrame& claim) {
    return dump_json(Json{{"claim", claim.address}, {"generation", claim.generation}});
}

std::optional<ClaimFrame> read_claim(std::string_view frame) {
    const auto address = member<std::string>(frame, "claim");
    const auto generation = member<std::int64_t>(frame, "generation");
    if (!address || !generation) return std::nullopt;
    return ClaimFrame{*address, *generation};
}

std::string ahead_frame(std::int64_t generation) {
    return dump_json(Json{{"ahead", generation}});
}

std::optional<Place> split_place(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return std::nullopt;
    const long long port = parse_int(text.substr(colon + 1)).value_or(0);
    if (port <= 0 || port > 65535) return std::nullopt;
    std::string host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return Place{host, static_cast<std::uint16_t>(port)};
}

std::string join_place(const Place& place) {
    const bool is_v6 = place.first.find(':') != place.first.npos;
    return is_v6 ? format("[{}]:{}", place.first, place.second)
                 : format("{}:{}", place.first, place.second);
}

Signpost::Signpost(sys::Poller& poller, sys::Fd listener, std::string address)
    : poller_(poller), listener_(std::move(listener)) {
    append_frame(frame_, moved_frame(address));
    poller_.add(listener_.get(), [this] { answer(); });
}

Signpost::~Signpost() {
    poller_.remove(listener_.get());
}

void Signpost::answer() {
    while (true) {
        const sys::Fd visitor(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!visitor.is_open()) return;
        // A fresh socket takes so few bytes at once; closing sends them.
        ::send(visitor.get(), frame_.data(), frame_.size(), MSG_NOSIGNAL);
    }
}

Claim::Claim(JobSecret secret, std::string node, std::vector<Place> endpoints, std::string address)
    : secret_(std::move(secret)),
      node_(std::move(node)),
      endpoints_(std::move(endpoints)),
      address_(std::move(address)),
      thread_([this](const std::stop_token& stop) {
          do {
              for (const Place& endpoint : endpoints_) {
                  capture([&] { look(endpoint, true, stop); });  // nobody there: as it should be
              }
          } while (sys::pause(Deadline::in(kLookAgain), stop));
      }) {}

std::string Claim::leader() const {
    return leader_.with([](const std::string& leader) { return leader; });
}

void Claim::look(const Place& place, bool follow, const std::stop_token& stop) {
    const Deadline by = Deadline::in(kPatience);
    sys::Socket socket = sys::Socket::connect_tcp(place.first, place.second, by, stop);
    FrameReader reader(kHandshakeLimit);
    const std::string greeting = next_frame(socket, reader, by, stop);
    if (const std::optional<std::string> moved = read_moved(greeting)) {
        const std::optional<Place> there = split_place(*moved);
        if (*moved == address_ || !follow || !there) return;
        return look(*there, false, stop);
    }
    SystemIds ids;
    Introduction introduction(secret_, node_ + " claims");
    send_frame(socket, introduction.answer(greeting, ids), by, stop);
    introduction.verify(next_frame(socket, reader, by, stop));
    const std::int64_t own = generation_;
    send_frame(socket, encode(ClaimFrame{address_, own}), by, stop);
    // Who is behind closes without an answer.
    const std::string answer = next_frame(socket, reader, by, stop);
    if (member<std::int64_t>(answer, "ahead").value_or(0) <= own) return;
    leader_.with([&](std::string& leader) { leader = join_place(place); });
    beaten_.notify();
}

}  // namespace ty::agent
