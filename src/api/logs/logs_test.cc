// SPDX-License-Identifier: Apache-2.0
#include "api/logs/event_json.h"
#include "api/logs/filter_pattern.h"
#include "api/testing.h"
#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api;

namespace {

const std::string kGroup(telemetry::kTrainingJobs);
const std::string kStream = "job-1/algo-1-1762116564";

struct LogsDesk : testing::Desk {
    struct Answer {
        int status;
        Json body;
        std::string type() const { return body.value("__type", ""); }
        std::string message() const { return body.value("message", ""); }
    };
    Answer ask(const std::string& operation, const Json& request) {
        const http::Response response =
            json("Logs_20140328." + operation, dump_json(request), "logs");
        return {response.status, parse_json(response.body)};
    }
    Answer events(Json request) {
        request["logGroupName"] = kGroup;
        request["logStreamName"] = kStream;
        return ask("GetLogEvents", request);
    }
    /// Lines "<n>" at n seconds.
    void append(std::uint64_t first, std::size_t count, const std::string& stream = kStream) {
        std::vector<telemetry::LogLine> lines;
        for (std::uint64_t n = first; n < first + count; ++n)
            lines.push_back({Instant(seconds(n)), std::to_string(n)});
        logs.append({kGroup, stream}, first, lines);
    }
};

std::vector<std::string> messages(const Json& events) {
    std::vector<std::string> out;
    for (const Json& event : events) out.push_back(event["message"]);
    return out;
}
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE_FIXTURE(LogsDesk, "a reader from the head sees every line once and then the same token") {
    append(0, 25);
    Json request{{"startFromHead", true}, {"limit", 10}};
    Texts seen;
    std::string token;
    for (;;) {
        const Answer page = events(request);
        REQUIRE(page.status == 200);
        for (const std::string& text : messages(page.body["events"])) seen.push_back(text);
        const std::string next = page.body["nextForwardToken"];
        if (next == token) break;
        token = next;
        request["nextToken"] = token;
    }
    REQUIRE(seen.size() == 25);
    CHECK(seen[0] == "0");
    CHECK(seen[24] == "24");
    append(25, 1);
    CHECK(messages(events(request).body["events"]) == Texts{"25"});
    CHECK(events(request).body["events"][0]["timestamp"] == 25'000);
    CHECK(events(request).body["events"][0]["ingestionTime"] == to_epoch_millis(clock.now()));
}

TEST_CASE_FIXTURE(LogsDesk, "without startFromHead the newest lines come first, then backward") {
    append(0, 25);
    Answer page = events({{"limit", 10}});
    CHECK(messages(page.body["events"]).front() == "15");
    CHECK(messages(page.body["events"]).back() == "24");
    page = events({{"limit", 10}, {"nextToken", page.body["nextBackwardToken"]}});
    CHECK(messages(page.body["events"]).front() == "5");
    page = events({{"limit", 10}, {"nextToken", page.body["nextBackwardToken"]}});
    CHECK(page.body["events"].size() == 5);
    const std::string first = page.body["nextBackwardToken"];
    page = events({{"nextToken", first}});
    CHECK(page.body["events"].empty());
    CHECK(page.body["nextBackwardToken"] == first);
    const Json forward = page.body["nextForwardToken"];
    CHECK(events({{"nextToken", forward}}).body["events"].size() == 25);
}

TEST_CASE_FIXTURE(LogsDesk,
                  "a time range takes its start and leaves out its end, as the SDK counts on") {
    append(0, 25);
    const Answer page = events({{"startTime", 5000}, {"endTime", 8000}, {"startFromHead", true}});
    CHECK(messages(page.body["events"]) == Texts{"5", "6", "7"});
    CHECK(messages(events({{"startTime", 5000}, {"endTime", 8000}, {"limit", 2}}).body["events"]) ==
          Texts{"6", "7"});
    CHECK(events({{"startTime", 99'000}, {"startFromHead", true}}).body["events"].empty());
}

TEST_CASE_FIXTURE(LogsDesk, "an empty stream has tokens, and a token survives the first line") {
    logs.create_stream({kGroup, kStream});
    const Answer page = events({{"startFromHead", true}});
    CHECK(page.body["events"].empty());
    REQUIRE(page.body.contains("nextForwardToken"));
    REQUIRE(page.body.contains("nextBackwardToken"));
    append(0, 1);
    CHECK(events({{"nextToken", page.body["nextForwardToken"]}}).body["events"].size() == 1);
}

TEST_CASE_FIXTURE(LogsDesk, "missing groups and streams are told apart, in AWS's words") {
    Answer answer = events({{"startFromHead", true}});
    CHECK(answer.status == 400);
    CHECK(answer.type() == "ResourceNotFoundException");
    CHECK(answer.message() == "The specified log stream does not exist.");
    answer = ask("GetLogEvents", {{"logGroupName", "/none"}, {"logStreamName", "x"}});
    CHECK(answer.message() == "The specified log group does not exist.");
    answer = ask("DescribeLogStreams", {{"logGroupName", "/none"}});
    CHECK(answer.type() == "ResourceNotFoundException");
    CHECK(ask("DescribeLogStreams", {{"logGroupName", kGroup}}).body["logStreams"].empty());
}

TEST_CASE_FIXTURE(LogsDesk, "all violations of a request are reported at once") {
    Answer answer = ask("GetLogEvents", {{"logGroupName", "a b"}, {"limit", 0}});
    CHECK(answer.type() == "InvalidParameterException");
    CHECK(answer.message() ==
          "3 validation errors detected: Value 'a b' at 'logGroupName' failed to satisfy "
          "constraint: Member must satisfy regular expression pattern: [\\.\\-_/#A-Za-z0-9]+; "
          "Value null at 'logStreamName' failed to satisfy constraint: Member must not be null; "
          "Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than "
          "or equal to 1");
    CHECK(ask("GetLogEvents", {{"logGroupName", 3}}).type() == "SerializationException");
    append(0, 1);
    for (const char* token : {"f/", "x/1", "f/-1", "f/1x", "f/99999999999999999999", ""})
        CHECK(events({{"nextToken", token}}).type() == "InvalidParameterException");
    CHECK(events({{"nextToken", "f/99999"}}).body["events"].empty());
    CHECK(events({{"startTime", 1e300}}).type() == "SerializationException");
    CHECK(events({{"startTime", -1}}).type() == "InvalidParameterException");
}

TEST_CASE_FIXTURE(LogsDesk,
                  "a job's streams are answered whole and without a token, whatever the limit") {
    for (int n = 1; n <= 50; ++n) logs.create_stream({kGroup, format("job-1/algo-{}-17", n)});
    logs.create_stream({kGroup, "job-10/algo-1-17"});
    Json request{{"logGroupName", kGroup},
                 {"logStreamNamePrefix", "job-1/"},
                 {"orderBy", "LogStreamName"},
                 {"limit", 1}};
    Answer answer = ask("DescribeLogStreams", request);
    CHECK(answer.body["logStreams"].size() == 50);
    CHECK_FALSE(answer.body.contains("nextToken"));
    logs.create_stream({kGroup, "job-1/algo-51-17"});
    answer = ask("DescribeLogStreams", request);
    CHECK(answer.body["logStreams"].size() == 51);
    CHECK_FALSE(answer.body.contains("nextToken"));
    // Several jobs' at once come in pages.
    request["logStreamNamePrefix"] = "job-1";
    request["limit"] = 20;
    std::size_t seen = 0;
    for (int pages = 1;; ++pages) {
        answer = ask("DescribeLogStreams", request);
        seen += answer.body["logStreams"].size();
        if (!answer.body.contains("nextToken")) {
            CHECK(pages == 3);
            break;
        }
        request["nextToken"] = answer.body["nextToken"];
    }
    CHECK(seen == 52);
}

TEST_CASE_FIXTURE(LogsDesk, "streams show their times, and can be ordered both ways") {
    logs.create_stream({kGroup, kStream});
    for (const char* name : {"a", "b", "c"}) logs.create_stream({kGroup, name});
    append(0, 5, "b");
    Answer answer =
        ask("DescribeLogStreams", {{"logGroupName", kGroup}, {"descending", true}, {"limit", 2}});
    REQUIRE(answer.body["logStreams"].size() == 2);
    CHECK(answer.body["logStreams"][0]["logStreamName"] == kStream);
    const Json token = answer.body["nextToken"];
    answer = ask("DescribeLogStreams",
                 {{"logGroupName", kGroup}, {"descending", true}, {"nextToken", token}});
    REQUIRE(answer.body["logStreams"].size() == 2);
    const Json b = answer.body["logStreams"][0];
    CHECK(b["logStreamName"] == "b");
    CHECK(b["firstEventTimestamp"] == 0);
    CHECK(b["lastEventTimestamp"] == 4000);
    CHECK(b["lastIngestionTime"] == to_epoch_millis(clock.now()));
    CHECK(b["arn"] == "arn:aws:logs:us-east-1:000000000000:log-group:" + kGroup + ":log-stream:b");
    CHECK_FALSE(answer.body["logStreams"][1].contains("firstEventTimestamp"));
    CHECK(ask("DescribeLogStreams", {{"logGroupName", kGroup}, {"nextToken", token}}).type() ==
          "InvalidParameterException");
    answer = ask("DescribeLogStreams", {{"logGroupName", kGroup},
                                        {"orderBy", "LastEventTime"},
                                        {"descending", true},
                                        {"limit", 1}});
    CHECK(answer.body["logStreams"][0]["logStreamName"] == "b");
    CHECK(
        ask("DescribeLogStreams",
            {{"logGroupName", kGroup}, {"orderBy", "LastEventTime"}, {"logStreamNamePrefix", "a"}})
            .message() == "Cannot order by LastEventTime with a logStreamNamePrefix.");
    CHECK(ask("DescribeLogStreams", {{"logGroupName", kGroup}, {"orderBy", "x"}}).type() ==
          "InvalidParameterException");
    answer = ask(
        "DescribeLogStreams",
        {{"logGroupIdentifier", "arn:aws:logs:us-east-1:000000000000:log-group:" + kGroup + ":*"}});
    CHECK(answer.body["logStreams"].size() == 4);
}

TEST_CASE_FIXTURE(LogsDesk, "programs make groups and streams and write to them") {
    CHECK(ask("CreateLogGroup", {{"logGroupName", "/mine"}}).status == 200);
    CHECK(ask("CreateLogGroup", {{"logGroupName", "/mine"}}).type() ==
          "ResourceAlreadyExistsException");
    const Json stream{{"logGroupName", "/mine"}, {"logStreamName", "s"}};
    CHECK(ask("CreateLogStream", stream).status == 200);
    CHECK(ask("CreateLogStream", stream).type() == "ResourceAlreadyExistsException");
    const long long now = to_epoch_millis(clock.now());
    Json put = stream;
    put["logEvents"] = {{{"timestamp", now - 15 * 86'400'000LL}, {"message", "old"}},
                        {{"timestamp", now}, {"message", "one\ntwo"}},
                        {{"timestamp", now + 3 * 3'600'000LL}, {"message", "new"}}};
    const Answer answer = ask("PutLogEvents", put);
    CHECK(answer.body["rejectedLogEventsInfo"]["tooOldLogEventEndIndex"] == 1);
    CHECK(answer.body["rejectedLogEventsInfo"]["tooNewLogEventStartIndex"] == 2);
    Json get = stream;
    CHECK(messages(ask("GetLogEvents", get).body["events"]) == Texts{"one\ntwo"});
    put["logEvents"] = {{{"timestamp", now}, {"message", "b"}},
                        {{"timestamp", now - 1}, {"message", "a"}}};
    CHECK(ask("PutLogEvents", put).message().find("chronological") != std::string::npos);
    put["logEvents"] = {{{"timestamp", now}, {"message", std::string(1'048'570, 'x')}}};
    CHECK(ask("PutLogEvents", put).message() ==
          "Upload too large: 1048596 bytes exceeds limit of 1048576");
    put["logEvents"] = Json::array();
    CHECK(ask("PutLogEvents", put).type() == "InvalidParameterException");
    put["logEvents"] = {{{"timestamp", now}, {"message", "b"}}};
    put["logStreamName"] = "none";
    CHECK(ask("PutLogEvents", put).type() == "ResourceNotFoundException");
    append(0, 2);
    put["logGroupName"] = kGroup;
    put["logStreamName"] = kStream;
    CHECK(ask("PutLogEvents", put).message().find("belongs to a training job") !=
          std::string::npos);
    CHECK(events({}).body["events"].size() == 2);
}

TEST_CASE_FIXTURE(LogsDesk, "groups are listed by prefix and part, in pages") {
    for (const char* name : {"/b", "/a/x", "/a/y"}) logs.create_group(name);
    Answer answer = ask("DescribeLogGroups", {{"limit", 2}});
    REQUIRE(answer.body["logGroups"].size() == 2);
    CHECK(answer.body["logGroups"][0]["logGroupName"] == "/a/x");
    CHECK(answer.body["logGroups"][0]["arn"] ==
          "arn:aws:logs:us-east-1:000000000000:log-group:/a/x:*");
    answer = ask("DescribeLogGroups", {{"limit", 2}, {"nextToken", answer.body["nextToken"]}});
    CHECK(answer.body["logGroups"].size() == 2);
    CHECK_FALSE(answer.body.contains("nextToken"));
    CHECK(ask("DescribeLogGroups", {{"logGroupNamePrefix", "/a/"}}).body["logGroups"].size() == 2);
    CHECK(ask("DescribeLogGroups", {{"logGroupNamePattern", "trainingjobs"}})
              .body["logGroups"]
              .size() == 1);
    CHECK(ask("ListTagsLogGroup", {{"logGroupName", kGroup}}).body["tags"].empty());
}

TEST_CASE_FIXTURE(LogsDesk,
                  "filtering interleaves streams by time and pages without loss or repeat") {
    const auto put = [&](const std::string& stream, long long at, const std::string& text) {
        logs.append({kGroup, stream},
                    std::vector<telemetry::LogLine>{{from_epoch_millis(at), text}});
    };
    put("j/algo-1", 10, "one 1");
    put("j/algo-1", 30, "one 3");
    put("j/algo-1", 30, "one 3b");
    put("j/algo-2", 20, "two 2");
    put("j/algo-2", 30, "two 3");
    put("k/algo-1", 25, "other");
    const Texts wanted = {"one 1", "two 2", "one 3", "one 3b", "two 3"};
    for (const int limit : {1, 2, 3, 100}) {
        Json request{{"logGroupName", kGroup}, {"logStreamNamePrefix", "j/"}, {"limit", limit}};
        Texts seen;
        std::vector<std::string> event_ids;
        for (;;) {
            const Answer page = ask("FilterLogEvents", request);
            REQUIRE(page.status == 200);
            for (const Json& event : page.body["events"]) {
                seen.push_back(event["message"]);
                event_ids.push_back(event["eventId"]);
                CHECK(event_ids.back().size() == 56);
            }
            if (!page.body.contains("nextToken")) break;
            request["nextToken"] = page.body["nextToken"];
        }
        CHECK(seen == wanted);
        std::ranges::sort(event_ids);
        CHECK(std::ranges::adjacent_find(event_ids) == event_ids.end());
    }
    Json request{
        {"logGroupName", kGroup}, {"logStreamNames", {"j/algo-2", "k/algo-1"}}, {"startTime", 25}};
    Answer page = ask("FilterLogEvents", request);
    CHECK(messages(page.body["events"]) == Texts{"other", "two 3"});
    CHECK(page.body["searchedLogStreams"][0]["logStreamName"] == "j/algo-2");
    CHECK(page.body["searchedLogStreams"][0]["searchedCompletely"] == true);
    request["endTime"] = 30;
    CHECK(messages(ask("FilterLogEvents", request).body["events"]) == Texts{"other"});
    request = {{"logGroupName", kGroup}, {"filterPattern", "one -3b"}};
    CHECK(messages(ask("FilterLogEvents", request).body["events"]) == Texts{"one 1", "one 3"});
    request["filterPattern"] = "{ $.x = 1 }";
    CHECK(ask("FilterLogEvents", request).message().find("JSON members") != std::string::npos);
    request = {{"logGroupName", kGroup}, {"nextToken", "bm9uZQ=="}};
    CHECK(ask("FilterLogEvents", request).message() == "The specified nextToken is invalid.");
    request = {{"logGroupName", kGroup}, {"logStreamNames", {"none"}}};
    CHECK(ask("FilterLogEvents", request).type() == "ResourceNotFoundException");
}

TEST_CASE_FIXTURE(LogsDesk, "known but unsupported operations are refused by name") {
    const Answer answer = ask("StartQuery", Json::object());
    CHECK(answer.status == 400);
    CHECK(answer.message().find("StartQuery") != std::string::npos);
}

TEST_CASE("filter patterns: terms, phrases, exclusions, alternatives") {
    const auto matches = [](const char* pattern, const char* text) {
        return logs::FilterPattern(pattern).matches(text);
    };
    CHECK(matches("", "anything"));
    CHECK(matches("  ", "anything"));
    CHECK(matches("ERROR", "an ERROR here"));
    CHECK_FALSE(matches("ERROR", "an error here"));
    CHECK(matches("ERROR here", "here is an ERROR"));
    CHECK_FALSE(matches("ERROR there", "an ERROR here"));
    CHECK(matches(R"("loss: 0.5")", "train loss: 0.5"));
    CHECK(matches(R"("say \"x\"")", R"(I say "x")"));
    CHECK_FALSE(matches("ERROR -here", "an ERROR here"));
    CHECK(matches(R"(-"not this")", "but this"));
    CHECK(matches("?ERROR ?WARN", "a WARN"));
    CHECK_FALSE(matches("?ERROR ?WARN", "an INFO"));
    CHECK(matches("INFO ?WARN", "an INFO"));
    for (const char* bad : {"[a, b]", "{$.a}", "%x%", "a:b", "\"open", "-", "?", "\"\""})
        CHECK_THROWS_AS(logs::FilterPattern{bad}, Error);
}

TEST_CASE("events are valid JSON whatever a line holds") {
    for (const std::string& text :
         {std::string("plain"), std::string("q\"\\\n\r\t\x01\x7f"), std::string("\xff\xfe bad"),
          std::string("\xe4\xb8\xad\xe6\x96\x87"), std::string("a\0b", 3)}) {
        std::string out;
        logs::append_json_string(out, text);
        const Json back = parse_json("[" + out + "]");
        CHECK(back[0] == to_valid_utf8(text));
    }
}
