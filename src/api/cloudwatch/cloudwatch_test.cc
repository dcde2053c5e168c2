// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/cbor.h"
#include "api/cloudwatch/params.h"
#include "api/testing.h"
#include "aws/xml_scan.h"
#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api;
using cloudwatch::decode_cbor;
using cloudwatch::encode_cbor;

namespace {

const std::string kGroup(telemetry::kTrainingJobs);

struct MetricsDesk : testing::Desk {
    MetricsDesk() {
        const telemetry::MetricId id{kGroup, "loss", {{"TrainingJobName", "job-1"}}};
        const std::vector<telemetry::MetricPoint> points = {{Instant(seconds(6000)), 1},
                                                            {Instant(seconds(6059)), 3},
                                                            {Instant(seconds(6130)), 5.5}};
        metrics.put(id, points);
    }
    Json request() const {
        return {{"Namespace", kGroup},
                {"MetricName", "loss"},
                {"Dimensions", {{{"Name", "TrainingJobName"}, {"Value", "job-1"}}}},
                {"StartTime", 6000},
                {"EndTime", 6200},
                {"Period", 60},
                {"Statistics", {"Average"}}};
    }
    http::Response send_json(const std::string& operation, const std::string& body) {
        return send({.service = "monitoring",
                     .body = body,
                     .headers = {{"X-Amz-Target", "GraniteServiceVersion20100801." + operation},
                                 {"Content-Type", "application/x-amz-json-1.0"},
                                 {"x-amzn-query-mode", "true"}}});
    }
    http::Response send_cbor(const std::string& operation, const std::string& body) {
        return send({.target = "/service/GraniteServiceVersion20100801/operation/" + operation,
                     .service = "monitoring",
                     .body = body,
                     .headers = {{"smithy-protocol", "rpc-v2-cbor"},
                                 {"Content-Type", "application/cbor"}}});
    }
    Json ask(const std::string& operation, const Json& request) {
        return parse_json(send_json(operation, dump_json(request)).body);
    }
    std::string refusal(const std::string& operation, const Json& request) {
        const http::Response response = send_json(operation, dump_json(request));
        CHECK(response.status == 400);
        return std::string(response.headers.get("x-amzn-query-error")) + " " +
               parse_json(response.body).value("message", "");
    }
};

}  // namespace

TEST_CASE_FIXTURE(MetricsDesk, "the metric table of a job, as the SDK asks for it") {
    const http::Response response = send_json("GetMetricStatistics", dump_json(request()));
    CHECK(response.status == 200);
    CHECK(response.headers.get("Content-Type") == "application/x-amz-json-1.0");
    const Json body = parse_json(response.body);
    CHECK(body["Label"] == "loss");
    REQUIRE(body["Datapoints"].size() == 2);
    CHECK(body["Datapoints"][0]["Timestamp"] == 6000.0);
    CHECK(body["Datapoints"][0]["Average"] == 2.0);
    CHECK(body["Datapoints"][0]["Unit"] == "None");
    CHECK(body["Datapoints"][1]["Timestamp"] == 6120.0);
    CHECK(body["Datapoints"][1]["Average"] == 5.5);
    Json all = request();
    all["Statistics"] = {"Sum", "Minimum", "Maximum", "SampleCount"};
    const Json point = ask("GetMetricStatistics", all)["Datapoints"][0];
    CHECK(point["Sum"] == 4.0);
    CHECK(point["Minimum"] == 1.0);
    CHECK(point["Maximum"] == 3.0);
    CHECK(point["SampleCount"] == 2.0);
    CHECK_FALSE(point.contains("Average"));
}

TEST_CASE_FIXTURE(MetricsDesk, "a start within a minute counts that minute whole") {
    Json late = request();
    late["StartTime"] = 6030;
    CHECK(ask("GetMetricStatistics", late)["Datapoints"][0]["Average"] == 2.0);
}

TEST_CASE_FIXTURE(MetricsDesk, "the three dialects give one answer") {
    const http::Response xml = form(
        "Action=GetMetricStatistics&Version=2010-08-01&Namespace=%2Faws%2Fsagemaker%2FTrainingJobs"
        "&MetricName=loss&Dimensions.member.1.Name=TrainingJobName&Dimensions.member.1.Value=job-1"
        "&StartTime=1970-01-01T01%3A40%3A00Z&EndTime=1970-01-01T01%3A43%3A20Z&Period=60"
        "&Statistics.member.1=Average",
        "monitoring");
    CHECK(xml.status == 200);
    CHECK(xml.body ==
          "<GetMetricStatisticsResponse xmlns=\"http://monitoring.amazonaws.com/doc/2010-08-01/\">"
          "<GetMetricStatisticsResult><Label>loss</Label><Datapoints><member>"
          "<Timestamp>1970-01-01T01:40:00.000Z</Timestamp><Average>2.0</Average><Unit>None</Unit>"
          "</member><member><Timestamp>1970-01-01T01:42:00.000Z</Timestamp><Average>5.5</Average>"
          "<Unit>None</Unit></member></Datapoints></GetMetricStatisticsResult><ResponseMetadata>"
          "<RequestId>" +
              std::string(xml.headers.get("x-amzn-requestid")) +
              "</RequestId></ResponseMetadata></GetMetricStatisticsResponse>");
    const http::Response cbor = send_cbor("GetMetricStatistics", encode_cbor(request()));
    CHECK(cbor.status == 200);
    CHECK(cbor.headers.get("smithy-protocol") == "rpc-v2-cbor");
    CHECK(cbor.headers.get("Content-Type") == "application/cbor");
    // Tag 1 with a double, not a bare number.
    CHECK(cbor.body.find(std::string("\xc1\xfb\x40\xb7\x70\0\0\0\0\0", 10)) != std::string::npos);
    CHECK(decode_cbor(cbor.body) == ask("GetMetricStatistics", request()));
}

TEST_CASE_FIXTURE(MetricsDesk, "errors have AWS's codes in every dialect") {
    Json bad = request();
    bad.erase("MetricName");
    CHECK(refusal("GetMetricStatistics", bad) ==
          "MissingParameter;Sender The parameter MetricName is required.");
    bad = request();
    bad["EndTime"] = 6000;
    CHECK(refusal("GetMetricStatistics", bad) ==
          "InvalidParameterValue;Sender The parameter StartTime must be less than the parameter "
          "EndTime.");
    for (const int period : {0, -60, 61, 2}) {
        bad = request();
        bad["Period"] = period;
        CHECK(refusal("GetMetricStatistics", bad)
                  .starts_with("InvalidParameterValue;Sender The parameter Period must be"));
    }
    bad = request();
    bad.erase("Statistics");
    CHECK(refusal("GetMetricStatistics", bad)
              .starts_with("InvalidParameterCombination;Sender Must specify either"));
    bad["ExtendedStatistics"] = {"p99"};
    CHECK(refusal("GetMetricStatistics", bad).find("p99") != std::string::npos);
    bad = request();
    bad["EndTime"] = 6'000'000'000.0;
    CHECK(refusal("GetMetricStatistics", bad).starts_with("InvalidParameterCombination"));
    bad = request();
    bad["Period"] = "sixty";
    CHECK(refusal("GetMetricStatistics", bad).starts_with("SerializationException"));
    CHECK(refusal("GetMetricStatistics", Json::array()).starts_with("SerializationException"));
    CHECK(refusal("PutMetricAlarm", Json::object()).find("PutMetricAlarm") != std::string::npos);

    const http::Response xml =
        form("Action=GetMetricStatistics&Version=2010-08-01&Namespace=x&Period=soon", "monitoring");
    CHECK(xml.status == 400);
    CHECK(aws::find_element(xml.body, "Code") == "MissingParameter");
    const http::Response cbor = send_cbor("GetMetricStatistics", "\xa1");
    CHECK(cbor.status == 400);
    CHECK(cbor.headers.get("smithy-protocol") == "rpc-v2-cbor");
    CHECK(decode_cbor(cbor.body)["__type"] == "SerializationException");
}

TEST_CASE_FIXTURE(MetricsDesk, "GetMetricData answers several metrics, newest first unless asked") {
    const Json stat{
        {"Metric",
         {{"Namespace", kGroup}, {"MetricName", "loss"}, {"Dimensions", request()["Dimensions"]}}},
        {"Period", 60},
        {"Stat", "Maximum"}};
    Json query{{"StartTime", 6000},
               {"EndTime", 6200},
               {"MetricDataQueries",
                {{{"Id", "a"}, {"MetricStat", stat}},
                 {{"Id", "b"}, {"Label", "B"}, {"MetricStat", stat}}}}};
    Json body = ask("GetMetricData", query);
    REQUIRE(body["MetricDataResults"].size() == 2);
    CHECK(body["MetricDataResults"][0]["Values"] == Json({5.5, 3.0}));
    CHECK(body["MetricDataResults"][0]["Timestamps"] == Json({6120.0, 6000.0}));
    CHECK(body["MetricDataResults"][0]["StatusCode"] == "Complete");
    CHECK(body["MetricDataResults"][1]["Label"] == "B");
    query["ScanBy"] = "TimestampAscending";
    CHECK(ask("GetMetricData", query)["MetricDataResults"][0]["Values"] == Json({3.0, 5.5}));
    query["MetricDataQueries"][1]["Id"] = "a";
    CHECK(refusal("GetMetricData", query).find("not unique") != std::string::npos);
    query["MetricDataQueries"][1] = {{"Id", "e"}, {"Expression", "SUM(a)"}};
    CHECK(refusal("GetMetricData", query).find("SUM(a)") != std::string::npos);
    query["MetricDataQueries"] = {{{"Id", "A"}, {"MetricStat", stat}}};
    CHECK(refusal("GetMetricData", query).starts_with("InvalidParameterValue"));
    query["MetricDataQueries"] = {{{"Id", "x"}}};
    CHECK(
        refusal("GetMetricData", query) ==
        "MissingParameter;Sender The parameter MetricDataQueries.member.1.MetricStat is required.");
}

TEST_CASE_FIXTURE(MetricsDesk, "metrics are listed by namespace, name and dimensions, in pages") {
    Json body = ask("ListMetrics", {{"Namespace", kGroup}});
    REQUIRE(body["Metrics"].size() == 1);
    CHECK(body["Metrics"][0] == Json({{"Namespace", kGroup},
                                      {"MetricName", "loss"},
                                      {"Dimensions", request()["Dimensions"]}}));
    std::vector<std::pair<telemetry::MetricId, telemetry::MetricPoint>> many;
    for (int n = 0; n < 1100; ++n)
        many.push_back({{"mine", "m", {{"n", std::to_string(n)}}}, {Instant(seconds(1)), 1}});
    metrics.put(many);
    std::size_t seen = 0;
    Json query{{"Namespace", "mine"}};
    for (int pages = 1;; ++pages) {
        body = ask("ListMetrics", query);
        seen += body["Metrics"].size();
        if (!body.contains("NextToken")) {
            CHECK(pages == 3);
            break;
        }
        query["NextToken"] = body["NextToken"];
    }
    CHECK(seen == 1100);
    CHECK(
        ask("ListMetrics", {{"Dimensions", {{{"Name", "n"}, {"Value", "7"}}}}})["Metrics"].size() ==
        1);
    CHECK(ask("ListMetrics", {{"Dimensions", {{{"Name", "TrainingJobName"}}}}})["Metrics"].size() ==
          1);
    CHECK(refusal("ListMetrics", {{"NextToken", "x"}}).starts_with("InvalidNextToken"));
}

TEST_CASE_FIXTURE(MetricsDesk, "programs put values of their own, all of a request or none") {
    Json put{
        {"Namespace", "mine"},
        {"MetricData",
         {{{"MetricName", "a"}, {"Value", 2}, {"Timestamp", 6000}},
          {{"MetricName", "b"}, {"Values", {1, 4}}, {"Counts", {2, 1}}, {"Timestamp", 6000.5}}}}};
    CHECK(send_json("PutMetricData", dump_json(put)).status == 200);
    CHECK(metrics.last({"mine", "a", {}})->value == 2);
    const auto b = metrics.query({"mine", "b", {}}, Instant(), Instant(seconds(7000)), seconds(60));
    REQUIRE(b.size() == 1);
    CHECK(b[0].count == 3);
    CHECK(b[0].sum == 6);
    const http::Response cbor = send_cbor("PutMetricData", encode_cbor(put));
    CHECK(cbor.status == 200);
    CHECK(cbor.body.empty());
    CHECK_FALSE(cbor.headers.contains("Content-Type"));
    CHECK(form("Action=PutMetricData&Version=2010-08-01&Namespace=mine&MetricData.member.1."
               "MetricName=c&MetricData.member.1.Value=1.5",
               "monitoring")
              .status == 200);
    CHECK(metrics.last({"mine", "c", {}})->value == 1.5);
    put["MetricData"] = {{{"MetricName", "d"}, {"Value", 1}}, {{"MetricName", "e"}}};
    CHECK(refusal("PutMetricData", put).starts_with("InvalidParameterCombination"));
    CHECK_FALSE(metrics.last({"mine", "d", {}}));
    put["MetricData"] = {{{"MetricName", "d"}, {"Values", {1}}, {"Counts", {1e9}}}};
    CHECK(refusal("PutMetricData", put).starts_with("InvalidParameterValue"));
    put["MetricData"] = {{{"MetricName", "d"}, {"StatisticValues", {{"Sum", 1}}}}};
    CHECK(refusal("PutMetricData", put).find("StatisticValues") != std::string::npos);
    put["Namespace"] = "AWS/EC2";
    CHECK(refusal("PutMetricData", put).find("AWS/") != std::string::npos);
}

TEST_CASE("forms become nested documents, lists in order of their numbers") {
    std::string text = "A.member.10=k&B=&C.D=x";
    for (int n = 9; n >= 1; --n) text += format("&A.member.{}={}", n, n);
    const Json document = cloudwatch::document_of_form(text);
    CHECK(document["A"].size() == 10);
    CHECK(document["A"][1] == "2");
    CHECK(document["A"][9] == "k");
    CHECK(document["C"]["D"] == "x");
    for (const char* bad :
         {"A.member.2=x", "A.member.0=x", "A=1&A=2", "A=1&A.B=2", "A.member.1=x&A.B=y",
          "A.member=x", "A.member.99999999999999999999=x", "A.B.C.D.E.F.G.H.I.J.K.L.M.N=x"})
        CHECK_THROWS_AS(cloudwatch::document_of_form(bad), Error);
}

TEST_CASE("CBOR goes there and back") {
    const Json value{{"a", {1, -1, 23, 24, 255, 256, 65'536, 4'294'967'296, -4'294'967'297}},
                     {"b", {{"c", "text"}, {"d", 1.5}, {"e", true}, {"f", false}, {"g", nullptr}}},
                     {"long", std::string(300, 'x')},
                     {"empty", Json::object()},
                     {"Timestamp", 5.5},
                     {"Timestamps", {1.0, 2.5}}};
    CHECK(decode_cbor(encode_cbor(value)) == value);
}

TEST_CASE("CBOR of other writers is understood: indefinite lengths, half and single floats, tags") {
    const auto decode = [](std::initializer_list<int> bytes) {
        std::string text;
        for (const int byte : bytes) text += char(byte);
        return decode_cbor(text);
    };
    CHECK(decode({0xbf, 0x61, 'a', 0x9f, 1, 2, 0xff, 0x61, 'b', 0x7f, 0x61, 'x', 0x61, 'y', 0xff,
                  0xff}) == Json({{"a", {1, 2}}, {"b", "xy"}}));
    CHECK(decode({0xf9, 0x3c, 0x00}) == 1.0);
    CHECK(decode({0xf9, 0xc4, 0x00}) == -4.0);
    CHECK(decode({0xf9, 0x00, 0x01}) == 5.960464477539063e-8);
    CHECK(decode({0xfa, 0x47, 0xc3, 0x50, 0x00}) == 100000.0);
    CHECK(decode({0xc1, 0x1a, 0x51, 0x4b, 0x67, 0xb0}) == 1363896240);
    CHECK(decode({0xf7}).is_null());
}

TEST_CASE("broken and hostile CBOR is refused") {
    const std::vector<std::string> bad = {"",
                                          std::string("\xa1", 1),
                                          "\x18",
                                          std::string("\x9b\xff\xff\xff\xff\xff\xff\xff\xff", 9),
                                          std::string("\x7b\x7f\xff\xff\xff\xff\xff\xff\xff", 9),
                                          "\xff",
                                          "\x1c",
                                          "\x41x",
                                          "\xc2\x01",
                                          "\xa1\x01\x01",
                                          std::string("\xa2\x61"
                                                      "a\x01\x61"
                                                      "a\x02"),
                                          "\x01\x01",
                                          std::string("\xf9\x7c\x00", 3),
                                          "\x61\xff",
                                          std::string("\x1b\xff\xff\xff\xff\xff\xff\xff\xff", 9),
                                          std::string(100, '\x81') + "\x01",
                                          "\x1f",
                                          "\xdf\x01",
                                          "\x9f\x01",
                                          std::string("\x7f\x01\xff"),
                                          "\xe0"};
    for (const std::string& bytes : bad) CHECK_THROWS_AS(decode_cbor(bytes), Error);
}
