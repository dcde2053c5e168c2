// SPDX-License-Identifier: Apache-2.0
// /healthz, /metrics and /drain. Every answer is made from a copy of the last HealthState, so that
// the launcher's thread never waits for a slow scraper.
#include "agent/launcher/status/events.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/http.h"

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

namespace ty::agent {

namespace {

constexpr std::array<const char*, 6> kPhases{"starting", "gathering", "running",
                                             "draining", "stopping",  "over"};
constexpr std::array kCauses{rendezvous::Cause::application, rendezvous::Cause::infrastructure,
                             rendezvous::Cause::preemption, rendezvous::Cause::resize,
                             rendezvous::Cause::hang};
constexpr double kMaxGrace = 7.0 * 24 * 3600;

http::Response json_response(int status, const Json& body) {
    http::Response response;
    response.status = status;
    response.headers.add("Content-Type", "application/json");
    response.body = dump_json(body) + "\n";
    return response;
}

http::Response refuse(int status, const std::string& why) {
    return json_response(status, Json{{"error", why}});
}

http::Response wrong_method(const char* allowed) {
    http::Response response = refuse(405, format("use {}", allowed));
    response.headers.add("Allow", allowed);
    return response;
}

http::Response healthz(const HealthState& state) {
    const bool is_well = !state.fenced && state.phase != "over";
    Json body = Json::object();
    body["status"] = is_well ? "ok" : state.fenced ? "fenced" : "over";
    body["phase"] = state.phase;
    body["generation"] = state.generation;
    body["workers"] = state.workers_alive;
    body["workers_wanted"] = state.workers_wanted;
    body["group_rank"] = state.group_rank;
    body["group_world_size"] = state.group_world_size;
    body["world_size"] = state.world_size;
    return json_response(is_well ? 200 : 503, body);
}

/// The text exposition format 0.0.4: HELP, TYPE, samples.
class Exposition {
public:
    void family(const char* name, const char* type, const char* help) {
        name_ = name;
        text_ += format("# HELP trainyard_launcher_{} {}\n# TYPE trainyard_launcher_{} {}\n", name,
                        help, name, type);
    }
    template <typename Number>
    void sample(Number value) {
        text_ += format("trainyard_launcher_{} {}\n", name_, value);
    }
    template <typename Number>
    void sample(const char* label, std::string_view label_value, Number value) {
        std::string escaped = replace_all(label_value, "\\", "\\\\");
        escaped = replace_all(replace_all(escaped, "\"", "\\\""), "\n", "\\n");
        text_ += format("trainyard_launcher_{}{{{}=\"{}\"}} {}\n", name_, label, escaped, value);
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
    const char* name_ = "";
};

std::string metrics_text(const HealthState& state) {
    Exposition out;
    out.family("generation", "gauge", "Newest generation this node was told of.");
    out.sample(state.generation);
    out.family("workers", "gauge", "Worker processes that run on this node.");
    out.sample(state.workers_alive);
    out.family("workers_wanted", "gauge", "Worker processes this node should run.");
    out.sample(state.workers_wanted);
    out.family("restarts_total", "counter", "Generations that ended early, by cause.");
    std::map<std::string, long long> restarts = state.restarts_by_cause;
    for (const rendezvous::Cause cause : kCauses)
        restarts.emplace(std::string(rendezvous::to_string(cause)), 0);
    for (const auto& [cause, count] : restarts) out.sample("cause", cause, count);
    out.family("warm_starts_total", "counter", "Workers started in a waiting interpreter.");
    out.sample(state.warm_starts);
    out.family("cold_starts_total", "counter", "Workers started as a new process.");
    out.sample(state.cold_starts);
    out.family("last_recovery_seconds", "gauge",
               "From the last failure to the start of the workers after it.");
    if (state.last_recovery_seconds >= 0) out.sample(state.last_recovery_seconds);
    out.family("phase", "gauge", "1 for the phase the launcher is in.");
    for (const char* phase : kPhases) out.sample("phase", phase, state.phase == phase ? 1 : 0);
    out.family("fenced", "gauge", "1 after the coordinator was out of reach for too long.");
    out.sample(state.fenced ? 1 : 0);
    return out.take();
}

bool is_from_here(std::string_view peer) {
    return peer.starts_with("127.") || peer.starts_with("[::1]") ||
           peer.starts_with("[::ffff:127.");
}

struct Address {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;
};

Address parse_address(std::string_view text) {
    Address address;
    std::string_view port = text;
    if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
        std::string_view host = text.substr(0, colon);
        if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
        if (!host.empty()) address.host = host;
        port = text.substr(colon + 1);
    }
    const auto number = parse_int(port);
    if (!number || *number < 0 || *number > 65535) {
        throw_error(Code::invalid, "InvalidAddress",
                    "\"{}\" is no address for health checks; write host:port or port", text);
    }
    address.port = static_cast<std::uint16_t>(*number);
    return address;
}

}  // namespace

struct HealthServer::State {
    // Constant after construction.
    std::function<void(std::optional<milliseconds>)> on_drain;
    std::string token;
    // Own synchronisation.
    Sync<HealthState> health;
    std::optional<http::Server> server;  ///< last: its threads use the others

    http::Response serve(http::Request& request);
    http::Response drain(const http::Request& request);
};

http::Response HealthServer::State::serve(http::Request& request) {
    const bool is_get = request.method == "GET" || request.method == "HEAD";
    http::Response response;
    if (request.path == "/healthz" || request.path == "/metrics") {
        if (!is_get) return wrong_method("GET");
        const HealthState now = health.with([](const HealthState& state) { return state; });
        if (request.path == "/healthz") {
            response = healthz(now);
        } else {
            response.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
            response.body = metrics_text(now);
        }
        response.headers.add("Cache-Control", "no-store");
    } else if (request.path == "/drain") {
        return request.method == "POST" ? drain(request) : wrong_method("POST");
    } else {
        response = refuse(404, "there are /healthz, /metrics and /drain");
    }
    response.head_only = request.method == "HEAD";
    return response;
}

http::Response HealthServer::State::drain(const http::Request& request) {
    // A web page in a browser on this machine can post here, but not without naming itself.
    if (request.headers.contains("Origin")) return refuse(403, "not for browsers");
    if (!is_from_here(request.peer)) {
        if (token.empty())
            return refuse(403, "from another machine only for jobs with TRAINYARD_RDZV_TOKEN");
        const std::string_view given = request.headers.get("Authorization");
        if (!given.starts_with("Bearer ") || !equal_in_constant_time(given.substr(7), token))
            return refuse(403, "from another machine only with the job's token as bearer");
    }
    std::optional<milliseconds> grace;
    for (const auto& [key, value] : parse_query(request.query)) {
        if (key != "grace") return refuse(400, format("unknown parameter \"{}\"", key));
        const auto number = parse_double(value);
        if (!number || !std::isfinite(*number) || *number < 0 || *number > kMaxGrace)
            return refuse(400, format("grace=\"{}\" is not a number of seconds", value));
        grace = milliseconds(std::llround(*number * 1000));
    }
    on_drain(grace);
    Json body = Json::object();
    body["status"] = "draining";
    if (grace) body["grace_seconds"] = static_cast<double>(grace->count()) / 1000;
    return json_response(202, body);
}

HealthServer::HealthServer(const std::string& address,
                           std::function<void(std::optional<milliseconds>)> on_drain,
                           std::string token)
    : state_(std::make_unique<State>()) {
    const Address at = parse_address(address);
    state_->on_drain = std::move(on_drain);
    state_->token = std::move(token);
    http::ServerOptions options;
    options.limits.connections = 64;
    options.limits.head = Bytes(8u << 10);
    options.limits.idle = seconds(30);
    options.limits.header_timeout = seconds(5);
    State* const state = state_.get();
    state_->server.emplace(
        sys::Listener::tcp(at.host, at.port),
        [state](http::Request& request) { return state->serve(request); }, std::move(options));
}

HealthServer::~HealthServer() = default;

std::uint16_t HealthServer::port() const {
    return state_->server->port();
}

void HealthServer::update(const HealthState& state) {
    state_->health.with([&state](HealthState& held) { held = state; });
}

}  // namespace ty::agent
