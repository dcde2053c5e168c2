// SPDX-License-Identifier: Apache-2.0
// See render.h. XML is written by XmlWriter, JSON by the document library: nothing is pasted
// together.
#include "api/render.h"

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

namespace ty::api {

namespace {

std::string_view side(const Failure& failure) {
    return failure.ours ? "Receiver" : "Sender";
}

std::string host_id(const std::string& request_id) {
    return to_base64(as_bytes(request_id + "trainyard"));
}

struct ObjectPath {
    std::string bucket, key;
};
ObjectPath parse_object_path(const std::string& path) {
    const std::string decoded = percent_decode(path).value_or(path);
    const std::string_view rest =
        std::string_view(decoded).substr(decoded.starts_with('/') ? 1 : 0);
    const auto slash = std::min(rest.find('/'), rest.size());
    return {std::string(rest.substr(0, slash)),
            slash < rest.size() ? std::string(rest.substr(slash + 1)) : std::string()};
}

std::string json_document(const Failure& failure) {
    Json document;
    document["__type"] = failure.code;
    document["message"] = to_valid_utf8(failure.message);
    return dump_json(document);
}

std::string cbor_document(const Failure& failure) {
    Json document;
    document["__type"] = failure.code;
    document["message"] = to_valid_utf8(failure.message);
    const std::vector<std::uint8_t> bytes = Json::to_cbor(document);
    return {bytes.begin(), bytes.end()};
}

std::string query_document(const Failure& failure, const ErrorContext& context) {
    aws::XmlWriter xml;
    if (context.xml_namespace.empty())
        xml.open("ErrorResponse");
    else
        xml.open("ErrorResponse", {{"xmlns", context.xml_namespace}});
    xml.open("Error")
        .element("Type", side(failure))
        .element("Code", failure.code)
        .element("Message", failure.message)
        .close();
    xml.element("RequestId", context.request_id);
    return std::move(xml).finish();
}

std::string ec2_document(const Failure& failure, const ErrorContext& context) {
    aws::XmlWriter xml;
    xml.open("Response").open("Errors").open("Error");
    xml.element("Code", failure.code).element("Message", failure.message).close().close();
    xml.element("RequestID", context.request_id);
    return std::move(xml).finish();
}

std::string s3_document(const Failure& failure, const ErrorContext& context) {
    const ObjectPath path = parse_object_path(context.path);
    aws::XmlWriter xml;
    xml.open("Error").element("Code", failure.code).element("Message", failure.message);
    if (!path.key.empty()) xml.element("Key", path.key);
    if (!path.bucket.empty()) xml.element("BucketName", path.bucket);
    if (!context.path.empty())
        xml.element("Resource", percent_decode(context.path).value_or(context.path));
    xml.element("RequestId", context.request_id).element("HostId", host_id(context.request_id));
    return std::move(xml).finish();
}

void add_query_mode(http::Response& response, const Failure& failure, const ErrorContext& context) {
    if (context.query_mode)
        response.headers.set("x-amzn-query-error", failure.code + ';' + std::string(side(failure)));
}

void set_json(http::Response& response, std::string_view type, const Failure& failure) {
    response.headers.set("Content-Type", std::string(type));
    response.body = json_document(failure);
}

}  // namespace

http::Response render_failure(Protocol protocol, const Failure& failure,
                              const ErrorContext& context) {
    http::Response response;
    response.status = failure.status;
    switch (protocol) {
        case Protocol::json_1_0:
            set_json(response, "application/x-amz-json-1.0", failure);
            add_query_mode(response, failure, context);
            break;
        case Protocol::json_1_1:
            set_json(response, "application/x-amz-json-1.1", failure);
            break;
        case Protocol::rest_json:
            set_json(response, "application/json", failure);
            response.headers.set("x-amzn-errortype", failure.code);
            break;
        case Protocol::query:
            response.headers.set("Content-Type", "text/xml");
            response.body = query_document(failure, context);
            break;
        case Protocol::ec2:
            response.headers.set("Content-Type", "text/xml;charset=UTF-8");
            response.body = ec2_document(failure, context);
            break;
        case Protocol::rest_xml:
            response.headers.set("Content-Type", "application/xml");
            response.body = s3_document(failure, context);
            break;
        case Protocol::cbor:
            response.headers.set("Content-Type", "application/cbor");
            response.headers.set("smithy-protocol", "rpc-v2-cbor");
            response.body = cbor_document(failure);
            add_query_mode(response, failure, context);
            break;
    }
    if (context.head) response.body.clear();
    return response;
}

http::Response render_error(Protocol protocol, std::string_view service, const Error& error,
                            const ErrorContext& context) {
    Failure failure = failure_of(service, error);
    if (failure.status == 500) {
        log::error(
            "request failed",
            {{"service", service}, {"request", context.request_id}, {"error", error.what()}});
        failure.message = format(
            "We encountered an internal error. Please try again. The daemon's log says more under "
            "request id {}",
            context.request_id);
    } else if (failure.ours) {
        log::warning("request refused for want of resources", {{"service", service},
                                                               {"request", context.request_id},
                                                               {"code", failure.code},
                                                               {"error", error.what()}});
    } else if (error.code() == Code::denied) {
        log::warning("request denied", {{"service", service},
                                        {"request", context.request_id},
                                        {"code", failure.code},
                                        {"error", error.what()}});
    }
    return render_failure(protocol, failure, context);
}

http::Response json_reply(Protocol protocol, std::string body) {
    http::Response response;
    const bool old = protocol == Protocol::json_1_0;
    response.headers.set("Content-Type",
                         old ? "application/x-amz-json-1.0" : "application/x-amz-json-1.1");
    response.body = std::move(body);
    return response;
}

http::Response query_reply(std::string_view operation, std::string_view xml_namespace,
                           const std::string& request_id,
                           const std::function<void(aws::XmlWriter&)>& fill) {
    aws::XmlWriter xml(aws::XmlWriter::Declaration::omit);
    xml.open(format("{}Response", operation), {{"xmlns", xml_namespace}});
    if (fill) {
        xml.open(format("{}Result", operation));
        fill(xml);
        xml.close();
    }
    xml.open("ResponseMetadata").element("RequestId", request_id).close();
    http::Response response;
    response.headers.set("Content-Type", "text/xml");
    response.body = std::move(xml).finish();
    return response;
}

http::Response ec2_reply(std::string_view operation, const std::string& request_id,
                         const std::function<void(aws::XmlWriter&)>& fill) {
    aws::XmlWriter xml;
    xml.open(format("{}Response", operation),
             {{"xmlns", "http://ec2.amazonaws.com/doc/2016-11-15/"}});
    xml.element("requestId", request_id);
    if (fill) fill(xml);
    http::Response response;
    response.headers.set("Content-Type", "text/xml;charset=UTF-8");
    response.body = std::move(xml).finish();
    return response;
}

}  // namespace ty::api
