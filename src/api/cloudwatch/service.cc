// SPDX-License-Identifier: Apache-2.0
// CloudWatch metrics in three dialects over one set of operations: AWS JSON 1.0 (botocore today),
// forms with XML answers (botocore before), RPC-v2 CBOR (newer SDKs). What fails is thrown; the
// router renders it in the dialect of the request.
#include "api/cloudwatch/cbor.h"
#include "api/cloudwatch/ops.h"
#include "api/coverage.h"
#include "api/render.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace ty::api {

namespace {

using cloudwatch::Dialect;
using cloudwatch::Params;

constexpr std::string_view kNamespace = "http://monitoring.amazonaws.com/doc/2010-08-01/";

struct Row {
    std::string_view name;
    Json (*handle)(Call& call, const Params& params);
    std::string_view state, note;
};
constexpr std::array kRows{
    Row{"GetMetricStatistics", cloudwatch::get_metric_statistics, "partial",
        "No percentiles, no units; up to 100,800 data points (AWS: 1,440)."},
    Row{"GetMetricData", cloudwatch::get_metric_data, "partial",
        "MetricStat queries only: metric math and SQL are refused."},
    Row{"ListMetrics", cloudwatch::list_metrics, "full", ""},
    Row{"PutMetricData", cloudwatch::put_metric_data, "partial",
        "StatisticValues are refused; units are not kept."},
};
constexpr std::array<std::string_view, 10> kRefused{
    "DeleteAlarms",         "DescribeAlarms",  "DescribeAlarmHistory", "GetDashboard",
    "GetInsightRuleReport", "GetMetricStream", "GetMetricWidgetImage", "ListDashboards",
    "PutDashboard",         "PutMetricAlarm"};

Dialect dialect_of(const http::Request& request) {
    if (request.headers.contains("x-amz-target")) return Dialect::json;
    return request.path.find("/service/") != std::string::npos ? Dialect::cbor : Dialect::query;
}

Json read_document(Dialect dialect, const std::string& body) {
    switch (dialect) {
        case Dialect::json:
            return body.empty() ? Json::object() : parse_json(body);
        case Dialect::cbor:
            return body.empty() ? Json::object() : cloudwatch::decode_cbor(body);
        case Dialect::query:
            return cloudwatch::document_of_form(body);
    }
    return Json::object();
}

std::string xml_text(const Json& value, bool is_time) {
    if (value.is_string()) return value.get<std::string>();
    if (is_time) return format_iso8601(from_epoch_seconds(value.get<double>()));
    return dump_json(value);
}

void write_xml(aws::XmlWriter& xml, const Json& object) {
    for (const auto& [name, value] : object.items()) {
        const bool is_time = cloudwatch::is_time_member(name);
        if (!value.is_array()) {
            xml.element(name, xml_text(value, is_time));
            continue;
        }
        xml.open(name);
        for (const Json& element : value) {
            if (element.is_object()) {
                xml.open("member");
                write_xml(xml, element);
                xml.close();
            } else {
                xml.element("member", xml_text(element, is_time));
            }
        }
        xml.close();
    }
}

http::Response write_answer(Dialect dialect, const Call& call, const Json& answer) {
    switch (dialect) {
        case Dialect::json:
            return json_reply(Protocol::json_1_0, answer.is_null() ? "{}" : dump_json(answer));
        case Dialect::query:
            return query_reply(
                call.operation, kNamespace, call.caller.request_id,
                answer.is_null() ? std::function<void(aws::XmlWriter&)>()
                                 : [&answer](aws::XmlWriter& xml) { write_xml(xml, answer); });
        case Dialect::cbor:
            break;
    }
    http::Response response;
    response.headers.set("smithy-protocol", "rpc-v2-cbor");
    if (answer.is_null()) return response;  // no output: neither body nor type
    response.headers.set("Content-Type", "application/cbor");
    response.body = cloudwatch::encode_cbor(answer);
    return response;
}

}  // namespace

http::Response serve_cloudwatch(Call& call) {
    const auto row = std::ranges::find(kRows, std::string_view(call.operation), &Row::name);
    if (row == kRows.end()) {
        std::string served;
        for (const Row& known : kRows)
            served += (served.empty() ? "" : ", ") + std::string(known.name);
        throw_error(Code::unsupported, "",
                    "the operation {} of CloudWatch is not implemented by Trainyard; it has {}",
                    call.operation.empty() ? "(none)" : to_valid_utf8(call.operation.substr(0, 80)),
                    served);
    }
    const Dialect dialect = dialect_of(call.request);
    const Params params(read_document(dialect, call.body), dialect);
    return write_answer(dialect, call, row->handle(call, params));
}

std::vector<OperationCoverage> cloudwatch_coverage() {
    std::vector<OperationCoverage> out;
    for (const Row& row : kRows)
        out.push_back(
            {"cloudwatch", std::string(row.name), std::string(row.state), std::string(row.note)});
    for (const std::string_view name : kRefused)
        out.push_back({"cloudwatch", std::string(name), "refused",
                       "UnsupportedOperationException, naming the operation."});
    return out;
}

}  // namespace ty::api
