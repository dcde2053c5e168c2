// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/rsh_link.h"

#include "agent/mpi/mpi.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"

#include <array>
#include <cstdlib>

namespace ty::agent {

namespace {

constexpr std::string_view kGreeting = "trainyard-rsh 1 ";
constexpr std::size_t kNonceLength = 26;
constexpr std::size_t kLongestRequest = 1u << 20;  ///< Open MPI names every host in it
constexpr const char* kSecret = "TRAINYARD_MPI_SECRET";
constexpr const char* kPort = "TRAINYARD_MPI_PORT";

/// The whole request is proven, so that nobody between can put another behind the proof.
std::string proof(const std::string& secret, std::string_view nonce, const RshRequest& request) {
    const std::string text =
        format("{} {} {}:{}", nonce, request.verb, request.body.size(), request.body);
    return to_hex(hmac_sha256(as_bytes(secret), text));
}

}  // namespace

plan::Pairs mpi_variables(const plan::NodePlan& plan) {
    const std::string secret = to_hex(
        hmac_sha256(as_bytes(plan.credentials.secret_key), "trainyard mpi " + plan.attempt.str()));
    return {{kSecret, secret}, {kPort, std::to_string(kMpiPort)}};
}

RshAddress rsh_address(const std::string& host) {
    const char* secret = std::getenv(kSecret);
    const char* port = std::getenv(kPort);
    const auto number = port != nullptr ? parse_int(port) : std::nullopt;
    if (secret == nullptr || *secret == '\0' || !number || *number < 0 || *number > 65535) {
        throw_error(Code::invalid, "NoMpiJob",
                    "{} and {} are not set as the agent sets them: this works only in a job of "
                    "several hosts with distribution mpi",
                    kSecret, kPort);
    }
    return {host, static_cast<std::uint16_t>(*number), secret};
}

RshLink::RshLink(sys::Socket socket) : socket_(std::move(socket)), reader_(kLongestRequest) {}

void RshLink::send(std::string_view frame, Deadline by, const std::stop_token& stop) {
    std::string out;
    append_frame(out, frame);
    socket_.write(as_bytes(out), by, stop);
}

std::optional<std::string> RshLink::receive(Deadline by, const std::stop_token& stop) {
    std::array<std::byte, 16384> buffer;
    while (true) {
        if (const auto frame = reader_.next()) return std::string(*frame);
        const std::size_t got = socket_.read(buffer, by, stop);
        if (got == 0) return std::nullopt;
        reader_.append({reinterpret_cast<const char*>(buffer.data()), got});
    }
}

RshLink rsh_call(const RshAddress& to, const RshRequest& request, Deadline by) {
    RshLink link(sys::Socket::connect_tcp(to.host, to.port, by));
    const auto greeting = link.receive(by);
    if (!greeting || !greeting->starts_with(kGreeting)) {
        throw_error(Code::unavailable, "NoRsh", "what listens at {}:{} is no rsh-serve", to.host,
                    to.port);
    }
    const std::string_view nonce = std::string_view(*greeting).substr(kGreeting.size());
    link.send(proof(to.secret, nonce, request) + " " + request.verb + " " + request.body, by);
    const auto answer = link.receive(by);
    if (!answer) throw_error(Code::unavailable, "NoRsh", "host {} ended the connection", to.host);
    if (*answer != "ok") throw_error(Code::denied, "Refused", "host {}: {}", to.host, *answer);
    return link;
}

RshRequest rsh_answer(RshLink& link, const std::string& secret, Deadline by,
                      const std::stop_token& stop) {
    SystemIds ids;
    const std::string nonce = ids.token(kNonceLength);
    link.send(std::string(kGreeting) + nonce, by, stop);
    const auto frame = link.receive(by, stop);
    if (!frame) throw_error(Code::unavailable, "", "the caller ended the connection");
    const std::size_t first = frame->find(' ');
    const std::size_t second = first == std::string::npos ? first : frame->find(' ', first + 1);
    RshRequest request;
    if (second != std::string::npos) {
        request.verb = frame->substr(first + 1, second - first - 1);
        request.body = frame->substr(second + 1);
    }
    if (second == std::string::npos ||
        !equal_in_constant_time(frame->substr(0, first), proof(secret, nonce, request))) {
        link.send("the caller does not know the secret of this job", by, stop);
        throw_error(Code::denied, "WrongSecret", "a caller does not know the secret of this job");
    }
    return request;
}

}  // namespace ty::agent
