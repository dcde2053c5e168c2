// SPDX-License-Identifier: Apache-2.0
#include "agent/control_plane.h"

#include "agent/partition.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/retry.h"
#include "base/text.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::agent {

using namespace std::chrono_literals;

Start read_start(const sys::fs::path& path) {
    const Json document = parse_json(sys::read_file(path));
    Start start;
    const auto read = [&](const char* name, std::string& into) {
        const auto found = document.is_object() ? document.find(name) : document.end();
        if (found == document.end() || !found->is_string()) {
            throw_error(Code::invalid, "MalformedStart", "{}: \"{}\" must be a string",
                        path.string(), name);
        }
        into = found->get<std::string>();
    };
    read("host", start.host);
    read("control_plane", start.control_plane);
    read("token", start.token);
    if (document.contains("network")) read("network", start.network);
    if (const auto gpus = document.find("gpus"); gpus != document.end()) {
        const bool whole = gpus->is_array() && std::ranges::all_of(*gpus, [](const Json& one) {
                               return one.is_number_unsigned() && one <= 1023;
                           });
        if (!whole) {
            throw_error(Code::invalid, "MalformedStart",
                        "{}: \"gpus\" must be a list of device numbers", path.string());
        }
        start.gpus = gpus->get<std::vector<int>>();
    }
    return start;
}

ControlPlane::ControlPlane(const Start& start)
    : partition_(start.partition),
      prefix_(http::parse_url(start.control_plane).path + "/agent/v1/"),
      authorization_("Bearer " + start.token),
      client_(http::parse_url(start.control_plane)) {}

/// One request, lost when the network is cut before its answer is here.
http::ClientResponse ControlPlane::send(const http::ClientRequest& request, Deadline by,
                                        const std::stop_token& stop) {
    if (partition_ == nullptr) return client_.send(request, by, stop);
    if (!partition_->wait_connected(stop))
        throw_error(Code::cancelled, "Stopped", "a call was cancelled");
    std::stop_source either;
    const std::stop_callback on_stop(stop, [&either] { either.request_stop(); });
    const std::stop_callback on_cut(partition_->cut(), [&either] { either.request_stop(); });
    try {
        return client_.send(request, by, either.get_token());
    } catch (const Error& error) {
        if (error.code() != Code::cancelled || stop.stop_requested()) throw;
        throw_error(Code::unavailable, "Partition", "the network of this node is cut");
    }
}

ControlPlane::Reply ControlPlane::call(std::string_view method, std::string_view what,
                                       std::string_view body, Deadline by,
                                       const std::stop_token& stop) {
    http::ClientRequest request;
    request.method = std::string(method);
    request.target = prefix_ + std::string(what);
    request.headers.add("Authorization", authorization_);
    if (!body.empty()) request.headers.add("Content-Type", "application/json");
    request.body = body;
    http::ClientResponse response = send(request, by, stop);
    if (response.status == 401) return {Verdict::gone, {}};
    if (response.status >= 200 && response.status < 300)
        return {Verdict::ok, std::move(response.body)};
    const Code code = response.status >= 500 || response.status == 408 || response.status == 429
                          ? Code::unavailable
                          : Code::invalid;
    throw_error(code, "ControlPlane", "control plane answered {} to {}: {}", response.status, what,
                truncate_utf8(response.body, 300));
}

ControlPlane::Reply ControlPlane::call_patiently(std::string_view method, std::string_view what,
                                                 std::string_view body, milliseconds patience,
                                                 const std::stop_token& stop) {
    Backoff backoff(20ms, 2000ms);
    for (bool first = true;; first = false) {
        try {
            return call(method, what, body, Deadline::in(patience), stop);
        } catch (const Error& error) {
            if (error.code() == Code::cancelled || stop.stop_requested()) throw;
            if (first)
                log::warning("control plane does not answer; trying on",
                             {{"call", what}, {"error", error.what()}});
        }
        if (!sys::pause(Deadline::in(backoff.next()), stop)) {
            throw_error(Code::cancelled, "Stopped", "call {} was cancelled", what);
        }
    }
}

}  // namespace ty::agent
