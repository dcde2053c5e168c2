// SPDX-License-Identifier: Apache-2.0
#include "cli/client.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

namespace ty::cli {

ApiClient::ApiClient(DaemonInfo daemon)
    : daemon_(std::move(daemon)),
      url_(http::parse_url(daemon_.endpoint)),
      client_(std::make_unique<http::Client>(url_)) {}

ApiClient::~ApiClient() = default;

namespace {

Code code_of(int status, const std::string& type) {
    if (status == 404 || type == "ResourceNotFoundException" || type == "ResourceNotFound")
        return Code::not_found;
    if (status == 403 || type == "UnrecognizedClientException" || type == "AccessDeniedException")
        return Code::denied;
    if (status >= 500) return Code::internal;
    return Code::invalid;
}

[[noreturn]] void throw_service_error(const http::ClientResponse& response) {
    std::string type = "HTTP " + std::to_string(response.status), message = response.body;
    try {
        const Json body = parse_json(response.body);
        type = body.value("__type", type);
        type = type.substr(type.rfind('#') + 1);
        message = body.contains("message") ? body.at("message").get<std::string>()
                                           : body.value("Message", message);
    } catch (const std::exception&) {  // not JSON: the raw text says more than a parse error would
    }
    const bool missing = message == "Requested resource not found.";
    throw Error(missing ? Code::not_found : code_of(response.status, type), type, message);
}

}  // namespace

Json ApiClient::send(http::ClientRequest request, const std::string& service, Deadline by) {
    aws::sign(request, url_.host + ":" + std::to_string(url_.port), daemon_.credentials,
              daemon_.region, service, clock_.now(), sha256_hex(request.body));
    const http::ClientResponse response = client_->send(request, by);
    if (response.status != 200) throw_service_error(response);
    return response.body.empty() ? Json::object() : parse_json(response.body);
}

Json ApiClient::call(const std::string& target, const Json& input) {
    const std::string body = dump_json(input);
    http::ClientRequest request{.method = "POST", .target = "/", .body = body};
    request.headers.add("X-Amz-Target", target);
    request.headers.add("Content-Type", "application/x-amz-json-1.1");
    return send(std::move(request), target.starts_with("SageMaker.") ? "sagemaker" : "logs",
                Deadline::in(seconds(30)));
}

Json ApiClient::control(const std::string& method, const std::string& path, const Json& input) {
    const std::string body = input.empty() ? std::string() : dump_json(input);
    http::ClientRequest request{.method = method, .target = "/trainyard/v1/" + path, .body = body};
    if (!body.empty()) request.headers.add("Content-Type", "application/json");
    // Copying a checkpoint or adding up many jobs takes its time.
    return send(std::move(request), "trainyard", Deadline::in(seconds(300)));
}

std::string job_path(const std::string& name, const std::string& rest) {
    return "jobs/" + percent_encode(name) + rest;
}

ApiClient connect(const Invocation& invocation) {
    return ApiClient(require_daemon(home_of(invocation)));
}

}  // namespace ty::cli
