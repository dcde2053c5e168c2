// SPDX-License-Identifier: Apache-2.0
// See route.h.
#include "api/route.h"

#include "aws/aws.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::api {

namespace {

struct Name {
    std::string_view wire, service;
};
constexpr std::array kTargets{
    Name{"SageMaker", "sagemaker"},
    Name{"Logs_20140328", "logs"},
    Name{"GraniteServiceVersion20100801", "monitoring"},
    Name{"AmazonEC2ContainerRegistry_V20150921", "ecr"},
    Name{"TrentService", "kms"},
    Name{"AmazonSSM", "ssm"},
    Name{"secretsmanager", "secretsmanager"},
    Name{"DynamoDB_20120810", "dynamodb"},
};
constexpr std::array kVersions{
    Name{"2011-06-15", "sts"},
    Name{"2010-05-08", "iam"},
    Name{"2016-11-15", "ec2"},
    Name{"2010-08-01", "monitoring"},
};

std::string service_named(std::span<const Name> names, std::string_view wire) {
    const auto found = std::ranges::find(names, wire, &Name::wire);
    return found != names.end() ? std::string(found->service) : std::string();
}

bool is_s3(std::string_view service) {
    return service.empty() || service == "s3" || service == "s3express" || service == "s3-outposts";
}

/// The admin and agent faces carry no AWS signature; a bucket called "metrics" does.
bool has_aws_signature(const http::Request& request) {
    return request.headers.get("authorization").starts_with("AWS") ||
           request.query.find("X-Amz-Signature=") != std::string::npos;
}

bool is_admin(const http::Request& request) {
    return (request.path == "/healthz" || request.path == "/metrics") &&
           (request.method == "GET" || request.method == "HEAD");
}

std::string host_only(std::string_view host) {
    std::string out = to_lower(trim(host));
    const auto colon = out.rfind(':');
    if (colon != std::string::npos && out.find(']', colon) == std::string::npos) out.resize(colon);
    return out;
}

bool is_number_host(std::string_view host) {
    return host.starts_with('[') ||
           std::ranges::all_of(host, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

/// "<bucket>.<own host>" or "<bucket>.localhost".
std::string bucket_before(const std::string& host, std::string_view own_host) {
    for (const std::string_view zone : {own_host, std::string_view("localhost")}) {
        if (zone.empty() || is_number_host(zone) || host.size() <= zone.size() + 1) continue;
        if (host.ends_with(zone) && host[host.size() - zone.size() - 1] == '.')
            return host.substr(0, host.size() - zone.size() - 1);
    }
    return {};
}

void route_target(Route& route, const http::Request& request, std::string_view target) {
    const auto dot = target.rfind('.');
    const std::string_view prefix = target.substr(0, std::min(dot, target.size()));
    route.operation =
        dot == std::string_view::npos ? std::string() : std::string(target.substr(dot + 1));
    route.protocol = request.headers.get("content-type").starts_with("application/x-amz-json-1.0")
                         ? Protocol::json_1_0
                         : Protocol::json_1_1;
    const std::string known = service_named(kTargets, prefix);
    route.service = !known.empty() ? known : to_valid_utf8(prefix);
}

/// /service/<name>/operation/<Op>
bool route_cbor(Route& route, const http::Request& request) {
    if (!request.path.starts_with("/service/") || !request.headers.contains("smithy-protocol"))
        return false;
    const std::vector<std::string> parts = split(request.path, '/');
    route.protocol = Protocol::cbor;
    const std::string known = parts.size() > 2 ? service_named(kTargets, parts[2]) : "";
    route.service = !known.empty() ? known : to_valid_utf8(parts.size() > 2 ? parts[2] : "");
    if (parts.size() == 5 && parts[3] == "operation") route.operation = parts[4];
    return true;
}

/// Trainyard's own calls. A bucket called "trainyard" is asked for with S3's scope.
bool is_control(const http::Request& request, std::string_view scope_service) {
    return request.path.starts_with("/trainyard/v1/") && scope_service != "s3";
}

/// A query-protocol call: a form on "/", or its presigned GET form.
bool is_form(const http::Request& request, std::string_view scope_service) {
    if (request.path != "/" && !request.path.empty()) return false;
    if (scope_service == "s3") return false;
    if (request.method == "POST")
        return to_lower(request.headers.get("content-type"))
            .starts_with("application/x-www-form-urlencoded");
    return request.method == "GET" && !is_s3(scope_service) &&
           (request.query.starts_with("Action=") ||
            request.query.find("&Action=") != std::string::npos);
}

Protocol query_dialect(std::string_view service) {
    return service == "ec2" ? Protocol::ec2 : Protocol::query;
}

bool speaks_query(std::string_view service) {
    return service == "sts" || service == "iam" || service == "ec2";
}

void route_s3(Route& route, const http::Request& request, std::string_view own_host,
              const aws::HostParts& host) {
    route.service = "s3";
    route.protocol = Protocol::rest_xml;
    route.reads_body = false;
    route.bucket = !host.bucket.empty()
                       ? host.bucket
                       : bucket_before(host_only(request.headers.get("host")), own_host);
}

}  // namespace

Route find_route(const http::Request& request, std::string_view own_host) {
    Route route;
    if (!has_aws_signature(request)) {
        if (is_admin(request)) route.face = Route::Face::admin;
        if (request.path.starts_with("/agent/v1/")) route.face = Route::Face::agent;
        if (route.face != Route::Face::aws) return route;
    }
    const auto scope = aws::find_scope(request);
    const aws::HostParts host = aws::parse_aws_host(request.headers.get("host"));
    route.region = scope ? scope->region : host.region;
    if (const auto target = request.headers.find("x-amz-target")) {
        route_target(route, request, *target);
        return route;
    }
    if (route_cbor(route, request)) return route;
    const std::string service = scope ? scope->service : host.service;
    if (is_control(request, service)) {
        route.service = "trainyard";
        route.protocol = Protocol::rest_json;
        return route;
    }
    if (is_form(request, service)) {
        route.service = service;
        route.protocol = query_dialect(service);
        if (request.method == "GET") add_form(route, request.query);
        return route;
    }
    if (is_s3(service)) {
        route_s3(route, request, own_host, host);
        return route;
    }
    route.service = service;
    route.protocol = speaks_query(service) ? query_dialect(service) : Protocol::rest_json;
    route.operation = request.method + ' ' + request.path;
    return route;
}

void add_form(Route& route, std::string_view form) {
    std::string version;
    for (auto& [name, value] : parse_query(form)) {
        if (name == "Action")
            route.operation = std::move(value);
        else if (name == "Version")
            version = std::move(value);
    }
    if (const std::string service = service_named(kVersions, version); !service.empty())
        route.service = service;
    route.protocol = query_dialect(route.service);
}

ErrorContext error_context(const http::Request& request, const Route& route,
                           std::string request_id) {
    ErrorContext context;
    context.request_id = std::move(request_id);
    context.path = request.path;
    context.head = request.method == "HEAD";
    context.query_mode = request.headers.contains("x-amzn-query-mode");
    if (route.service == "sts") context.xml_namespace = "https://sts.amazonaws.com/doc/2011-06-15/";
    if (route.service == "iam") context.xml_namespace = "https://iam.amazonaws.com/doc/2010-05-08/";
    if (route.service == "monitoring")
        context.xml_namespace = "http://monitoring.amazonaws.com/doc/2010-08-01/";
    return context;
}

}  // namespace ty::api
