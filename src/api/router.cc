// SPDX-License-Identifier: Apache-2.0
// The one handler behind the server: finds the face, checks the signature, calls, renders what
// failed. Runs on connection threads; the only shared state is the counters and the signing-key
// cache.
#include "api/admin/admin.h"
#include "api/api.h"
#include "api/auth.h"
#include "api/body.h"
#include "api/render.h"
#include "api/request_counts.h"
#include "api/route.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::api {

namespace {

struct FaceRow {
    std::string_view service;
    http::Response (*serve)(Call&);
};
constexpr std::array kFaces{
    FaceRow{"sagemaker", serve_sagemaker},
    FaceRow{"logs", serve_logs},
    FaceRow{"monitoring", serve_cloudwatch},
    FaceRow{"sts", serve_sts},
    FaceRow{"iam", serve_iam},
    FaceRow{"ecr", serve_ecr},
    FaceRow{"ec2", serve_ec2},
    FaceRow{"s3", serve_s3},
    FaceRow{"trainyard", serve_control},
};

const FaceRow* find_face(std::string_view service) {
    const auto found = std::ranges::find(kFaces, service, &FaceRow::service);
    return found != kFaces.end() ? &*found : nullptr;
}

[[noreturn]] void refuse_service(const Route& route) {
    std::string served;
    for (const FaceRow& row : kFaces)
        served += (served.empty() ? "" : ", ") + std::string(row.service);
    if (route.service.empty() &&
        (route.protocol == Protocol::query || route.protocol == Protocol::ec2))
        throw_error(Code::invalid, "UnknownOperation",
                    "The action {} is not valid for this endpoint: its Version names no "
                    "service that is served here ({})",
                    route.operation.empty() ? "(none)" : to_valid_utf8(route.operation), served);
    throw_error(Code::unsupported, "UnknownOperation",
                "the service \"{}\" is not served by Trainyard, which serves {}", route.service,
                served);
}

/// Regions become part of ARNs and of rows: a name, not any text.
void check_region(const std::string& region) {
    const bool plain = std::ranges::all_of(region, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (region.empty() || region.size() > 32 || !plain)
        throw_error(
            Code::invalid, "",
            "\"{}\" is no region name; use lower-case letters, digits and dashes, as in us-east-1",
            to_valid_utf8(region.substr(0, 40)));
}

std::string host_of(const std::string& endpoint) {
    if (endpoint.empty()) return {};
    return http::parse_url(endpoint).host;
}

class Router {
public:
    explicit Router(Services& services)
        : services_(services),
          own_host_(host_of(services.settings.endpoint)),
          started_(services.clock.monotonic()),
          authenticator_(
              services.settings.root,
              [&jobs = services.jobs](const std::string& key) {
                  return find_attempt_keys(jobs, key);
              },
              services.clock) {
        // The listener may be running while we are destroyed; it holds what it needs.
        services.jobs.on_change([meter = meter_](const jobs::Job& job) { meter->put(job); });
    }
    ~Router() { services_.jobs.on_change(nullptr); }
    Router(const Router&) = delete;
    Router& operator=(const Router&) = delete;

    http::Response handle(http::Request& request) {
        const Monotonic begin = services_.clock.monotonic();
        const std::string request_id = services_.ids.uuid();
        Route route = find_route(request, own_host_);
        http::Response response;
        try {
            response = dispatch(request, route, request_id);
        } catch (const Error& error) {
            response = render_error(route.protocol, route.service, error,
                                    error_context(request, route, request_id));
        } catch (const std::exception& foreign) {
            const Error error(Code::internal, "", foreign.what());
            response = render_error(route.protocol, route.service, error,
                                    error_context(request, route, request_id));
        }
        finish(request, route, request_id, response, begin);
        return response;
    }

private:
    static std::optional<aws::Credentials> find_attempt_keys(const jobs::JobService& jobs,
                                                             const std::string& key) {
        auto keys = jobs.attempt_credentials(key);
        if (!keys) return std::nullopt;
        return aws::Credentials{std::move(keys->access_key), std::move(keys->secret_key),
                                std::move(keys->session_token)};
    }

    http::Response dispatch(http::Request& request, Route& route, const std::string& request_id) {
        switch (route.face) {
            case Route::Face::admin:
                return answer_admin(services_, request, counts_, *meter_, started_);
            case Route::Face::agent:
                return serve_agent(services_, request);
            case Route::Face::aws:
                break;
        }
        if (route.region.empty()) route.region = services_.settings.region;
        check_region(route.region);
        return route.reads_body ? call_with_body(request, route, request_id)
                                : call_s3(request, route, request_id);
    }

    http::Response call_with_body(http::Request& request, Route& route,
                                  const std::string& request_id) {
        const Bytes limit = services_.settings.json_body_limit;
        std::string body = request.body->read_all(limit);
        const aws::Verified verified = authenticator_.check(request, sha256_hex(body));
        body = unpack_body(std::move(body), request.headers.get("content-encoding"), limit);
        const bool form = route.protocol == Protocol::query || route.protocol == Protocol::ec2;
        if (form && request.method == "POST") add_form(route, body);
        if (form && request.method == "GET") body = request.query;
        const FaceRow* face = find_face(route.service);
        if (face == nullptr) refuse_service(route);
        if (route.protocol == Protocol::rest_json && face->serve != serve_control)
            throw_error(Code::unsupported, "UnknownOperation",
                        "{} {} of {} is not served by Trainyard", request.method,
                        to_valid_utf8(request.path), route.service);
        Call call{.services = services_,
                  .request = request,
                  .verified = verified,
                  .caller = caller_of(verified, route, request_id),
                  .operation = route.operation,
                  .body = std::move(body)};
        return face->serve(call);
    }

    /// The body is the face's to stream; its signed hash is checked there (object store,
    /// documents).
    http::Response call_s3(http::Request& request, const Route& route,
                           const std::string& request_id) {
        const aws::Verified verified = authenticator_.check(request, "");
        // The signature covers the path as sent; faces see one addressing style.
        if (!route.bucket.empty()) request.path = '/' + percent_encode(route.bucket) + request.path;
        Call call{.services = services_,
                  .request = request,
                  .verified = verified,
                  .caller = caller_of(verified, route, request_id),
                  .operation = {},
                  .body = {}};
        return serve_s3(call);
    }

    static Caller caller_of(const aws::Verified& verified, const Route& route,
                            const std::string& request_id) {
        return {.access_key = verified.scope.access_key,
                .region = route.region,
                .service = route.service,
                .request_id = request_id};
    }

    void finish(const http::Request& request, const Route& route, const std::string& request_id,
                http::Response& response, Monotonic begin) {
        const std::string_view service = route.face == Route::Face::admin   ? "admin"
                                         : route.face == Route::Face::agent ? "agent"
                                         : find_face(route.service) != nullptr
                                             ? std::string_view(route.service)
                                             : "unknown";
        if (service == "s3") {
            response.headers.set("x-amz-request-id", request_id);
            response.headers.set("x-amz-id-2", to_base64(as_bytes(request_id + "trainyard")));
        } else {
            response.headers.set("x-amzn-requestid", request_id);
        }
        const auto took = services_.clock.monotonic() - begin;
        counts_.add(service, response.status, took);
        log::debug("request",
                   {{"id", request_id},
                    {"service", service},
                    {"operation", route.operation},
                    {"method", request.method},
                    {"path", request.path},
                    {"status", response.status},
                    {"us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()}});
    }

    // Set once.
    Services& services_;
    const std::string own_host_;
    const Monotonic started_;
    // Own synchronisation.
    Authenticator authenticator_;
    RequestCounts counts_;
    const std::shared_ptr<LedgerMeter> meter_ = std::make_shared<LedgerMeter>(services_.settings);
};

}  // namespace

http::Handler make_router(Services& services) {
    auto router = std::make_shared<Router>(services);
    return [router](http::Request& request) { return router->handle(request); };
}

}  // namespace ty::api
