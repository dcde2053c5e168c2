// SPDX-License-Identifier: Apache-2.0
#include "agent/network/network.h"

#include "agent/network/addresses.h"
#include "agent/network/forwarder.h"
#include "agent/network/parcel.h"
#include "base/error.h"
#include "base/json.h"
#include "base/retry.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

#include <array>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kLinkLimit = 10s;

/// Refusals travel by name.
Code code_from(std::string_view name) {
    for (const Code code : {Code::invalid, Code::not_found, Code::conflict, Code::denied,
                            Code::exhausted, Code::unsupported}) {
        if (to_string(code) == name) return code;
    }
    return Code::unavailable;
}

/// One request, one answer. Throws what the other side says.
Parcel ask(int socket, const Json& request, Deadline by, const std::stop_token& stop) {
    send_parcel(socket, dump_json(request));
    switch (sys::wait(socket, sys::Readiness::readable, by, stop)) {
        case sys::Waited::ready:
            break;
        case sys::Waited::timed_out:
            throw_error(Code::timed_out, "NetworkSilent",
                        "the job's network process does not answer");
        case sys::Waited::stopped:
            throw_error(Code::cancelled, "Stopped", "joining the job's network was cancelled");
    }
    std::optional<Parcel> answer = receive_parcel(socket);
    if (!answer) throw_error(Code::unavailable, "NetworkGone", "the job's network process is gone");
    const Json document = parse_json(answer->text);
    if (document.is_object() && document.contains("error")) {
        throw_error(code_from(document.value("code", "")), "NetworkRefused", "{}",
                    document.value("error", ""));
    }
    return std::move(*answer);
}

sys::Fd connect_patiently(const sys::fs::path& socket, Deadline by, const std::stop_token& stop) {
    Backoff backoff(1ms, 20ms);
    for (;;) {
        sys::Fd process = connect_to(socket);
        if (process.is_open()) return process;
        if (by.passed()) {
            throw_error(Code::unavailable, "NetworkGone",
                        "nobody listens at {}: the job's network "
                        "process did not start, or is gone",
                        socket.string());
        }
        if (!sys::pause(Deadline::earlier(by, Deadline::in(backoff.next())), stop))
            throw_error(Code::cancelled, "Stopped", "joining the job's network was cancelled");
    }
}

}  // namespace

JobNetwork::JobNetwork() = default;
JobNetwork::~JobNetwork() = default;

std::unique_ptr<JobNetwork> JobNetwork::join(const sys::fs::path& socket, const std::string& host,
                                             const std::string& daemon, Deadline by,
                                             const std::stop_token& stop) {
    const Endpoint endpoint = parse_endpoint(daemon);
    std::unique_ptr<JobNetwork> self(new JobNetwork());
    self->process_ = connect_patiently(socket, by, stop);
    Parcel answer = ask(self->process_.get(), {{"join", host}, {"daemon", daemon}}, by, stop);
    if (answer.fds.size() < 3) {
        throw_error(Code::unavailable, "NetworkGone",
                    "the job's network process gave {} descriptors instead of 3; raise the limit "
                    "on open files",
                    answer.fds.size());
    }
    const Json document = parse_json(answer.text);
    for (const Json& entry : document.at("addresses")) {
        self->addresses_.emplace_back(entry.at(0).get<std::string>(),
                                      entry.at(1).get<std::string>());
    }
    self->interface_ = document.at("interface").get<std::string>();
    self->rendezvous_ = document.at("rendezvous").get<std::string>();
    self->network_ = std::move(answer.fds[1]);
    self->switch_ = std::move(answer.fds[2]);
    if (answer.fds.size() > 3) self->user_ = std::move(answer.fds[3]);
    self->forwarder_ = std::make_unique<Forwarder>(
        std::move(answer.fds[0]), Forwarder::Target{to_string(endpoint.address), endpoint.port});
    return self;
}

void JobNetwork::set_link(bool up) {
    ask(process_.get(), {{"link", up}}, Deadline::in(kLinkLimit), {});
    forwarder_->hold(!up);
}

}  // namespace ty::agent
