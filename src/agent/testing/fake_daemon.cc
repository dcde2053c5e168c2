// SPDX-License-Identifier: Apache-2.0
#include "agent/testing/fake_daemon.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::agent {

using namespace std::chrono_literals;

namespace {

constexpr milliseconds kWait = 20s;

http::Response text(int status, std::string body) {
    http::Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

http::Response s3_fault(int status, const std::string& code) {
    return text(status, "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>" + code +
                            "</Message></Error>");
}

std::string etag_of(const std::string& content) {
    Hasher hasher(HashKind::md5);
    hasher.update(content);
    return "\"" + to_hex(as_bytes(hasher.finish())) + "\"";
}

std::string parameter(const std::string& query, std::string_view name) {
    for (const auto& [key, value] : parse_query(query)) {
        if (key == name) return value;
    }
    return {};
}

}  // namespace

FakeDaemon::FakeDaemon() {
    http::ServerOptions options;
    server_ = std::make_unique<http::Server>(
        sys::Listener::tcp("127.0.0.1", 0),
        [this](http::Request& request) { return serve(request); }, options);
    plan.attempt = AttemptId("j-test.1");
    plan.job_name = "Test-Job";
    plan.job_arn = "arn:aws:sagemaker:us-west-2:000000000000:training-job/test-job";
    plan.region = "us-west-2";
    plan.account = "000000000000";
    plan.endpoint = url();
    plan.credentials = {"AKIDTEST", "verysecret", ""};
    plan.hosts = {"algo-1"};
    plan.host = "algo-1";
    plan.instance_type = "ml.m5.xlarge";
    plan.stream = "Test-Job/algo-1-1";
    plan.environment.name = "shell";
    plan.environment.image = "shell:latest";
    plan.output.uri = "s3://out/jobs/Test-Job/output";
    plan.limits.stop_grace = 2s;
    plan.limits.shared_memory = Bytes(16u << 20);
}

FakeDaemon::~FakeDaemon() {
    forget();
    server_.reset();
}

std::string FakeDaemon::url() const {
    return format("http://127.0.0.1:{}", server_->port());
}

void FakeDaemon::prepare(const sys::fs::path& folder) const {
    sys::fs::create_directories(folder);
    sys::write_file(
        folder / "start.json",
        dump_json(Json{{"host", "algo-1"}, {"control_plane", url()}, {"token", token}}));
}

void FakeDaemon::put_object(const std::string& path, std::string content) {
    state_.with([&](State& state) { state.objects[path] = std::move(content); });
}
std::optional<std::string> FakeDaemon::object(const std::string& path) const {
    return state_.with([&](const State& state) -> std::optional<std::string> {
        const auto found = state.objects.find(path);
        if (found == state.objects.end()) return std::nullopt;
        return found->second;
    });
}
std::vector<std::string> FakeDaemon::object_names() const {
    return state_.with([](const State& state) {
        std::vector<std::string> names;
        for (const auto& [name, content] : state.objects) names.push_back(name);
        return names;
    });
}
void FakeDaemon::command(plan::Stop stop) {
    state_.with([&](State& state) { state.command = stop; });
    state_.notify();
}
void FakeDaemon::be_away(bool away) {
    state_.with([&](State& state) { state.away = away; });
    state_.notify();
}
void FakeDaemon::forget() {
    state_.with([](State& state) { state.forgotten = true; });
    state_.notify();
}
std::vector<plan::Event> FakeDaemon::events() const {
    return state_.with([](const State& state) { return state.events; });
}
std::vector<std::string> FakeDaemon::lines() const {
    return state_.with([](const State& state) { return state.lines; });
}
std::vector<std::string> FakeDaemon::complaints() const {
    return state_.with([](const State& state) { return state.complaints; });
}

bool FakeDaemon::wait_for_line(const std::string& wanted) const {
    const auto found = [&](const State& state) {
        return std::ranges::any_of(state.lines, [&](const std::string& line) {
            return line.find(wanted) != std::string::npos;
        });
    };
    return state_.wait(Deadline::in(kWait), {}, found, found);
}
bool FakeDaemon::has_line(const std::string& wanted) const {
    const std::vector<std::string> all = lines();
    return std::ranges::any_of(
        all, [&](const std::string& line) { return line.find(wanted) != std::string::npos; });
}

std::optional<plan::Finished> FakeDaemon::finished() const {
    for (const plan::Event& event : events()) {
        if (const auto* end = std::get_if<plan::Finished>(&event.payload)) return *end;
    }
    return std::nullopt;
}

http::Response FakeDaemon::serve(http::Request& request) {
    try {
        constexpr std::string_view kPrefix = "/agent/v1/";
        if (!request.path.starts_with(kPrefix)) return serve_s3(request);
        return serve_agent(request, request.path.substr(kPrefix.size()));
    } catch (const Error& error) {
        return text(500, error.what());
    }
}

http::Response FakeDaemon::serve_agent(http::Request& request, const std::string& what) {
    const std::string body = request.body->read_all(Bytes(64u << 20));
    const auto [away, forgotten] =
        state_.with([](const State& state) { return std::pair(state.away, state.forgotten); });
    if (forgotten || request.headers.get("Authorization") != "Bearer " + token)
        return text(401, "");
    if (away) return text(503, "");
    if (what == "plan") return text(200, plan::to_json(plan));
    if (what == "sync") return sync(body, request.stop);
    if (what == "logs") return logs(request.query, body);
    return text(404, "");
}

http::Response FakeDaemon::sync(const std::string& body, const std::stop_token& stop) {
    const plan::SyncRequest request = plan::sync_request_from_json(body);
    plan::SyncReply reply;
    state_.with([&](State& state) {
        for (const plan::Event& event : request.events) {
            if (event.seq <= state.events.size()) continue;
            if (event.seq != state.events.size() + 1)
                state.complaints.push_back(
                    format("event {} after {}", event.seq, state.events.size()));
            state.events.push_back(event);
        }
    });
    state_.notify();
    const auto ready = [&](const State& state) {
        return (state.command && request.commands_seen < 1) || state.forgotten || state.away;
    };
    state_.wait(Deadline::in(std::min<milliseconds>(request.wait, 500ms)), stop, ready,
                [&](const State& state) {
                    reply.acknowledged = state.events.size();
                    reply.gone = state.forgotten;
                    if (state.command && request.commands_seen < 1) {
                        reply.command = *state.command;
                        reply.command_number = 1;
                    }
                });
    return text(200, plan::to_json(reply));
}

http::Response FakeDaemon::logs(const std::string& query, const std::string& body) {
    std::size_t index = static_cast<std::size_t>(parse_int(parameter(query, "first")).value_or(-1));
    const std::size_t next = state_.with([&](State& state) {
        if (parameter(query, "stream") != plan.stream) state.complaints.push_back("wrong stream");
        if (index > state.lines.size())
            state.complaints.push_back(format("line {} after {}", index, state.lines.size()));
        for (const plan::Event& event : state.events) {
            if (std::holds_alternative<plan::Finished>(event.payload))
                state.complaints.push_back("line after the end");
        }
        std::size_t at = 0;
        while (at < body.size()) {
            const std::size_t space = body.find(' ', at);
            const std::size_t newline = body.find('\n', at);
            const auto size = static_cast<std::size_t>(
                parse_int(std::string_view(body).substr(space + 1, newline - space - 1))
                    .value_or(0));
            if (index >= state.lines.size()) state.lines.push_back(body.substr(newline + 1, size));
            ++index;
            at = newline + 1 + size + 1;
        }
        return state.lines.size();
    });
    state_.notify();
    return text(200, dump_json(Json{{"next", next}}));
}

http::Response FakeDaemon::serve_s3(http::Request& request) {
    const std::string path = percent_decode(request.path.substr(1)).value_or("");
    const std::string body = request.body->read_all(Bytes(1u << 30));
    const std::string upload = parameter(request.query, "uploadId");
    return state_.with([&](State& state) {
        if (state.away) return text(503, "");
        if (request.method == "GET" && path.find('/') == std::string::npos) {
            std::string xml =
                "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>";
            const std::string wanted = path + "/" + parameter(request.query, "prefix");
            for (const auto& [name, content] : state.objects) {
                if (!name.starts_with(wanted)) continue;
                xml += format("<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag></Contents>",
                              percent_encode(name.substr(path.size() + 1), Slash::keep),
                              content.size(), replace_all(etag_of(content), "\"", "&quot;"));
            }
            return text(200, xml + "</ListBucketResult>");
        }
        if (request.method == "POST" && upload.empty()) {
            const std::string id = format("upload-{}", ++state.next_upload);
            state.uploads[id];
            return text(200, "<InitiateMultipartUploadResult><UploadId>" + id +
                                 "</UploadId></InitiateMultipartUploadResult>");
        }
        http::Response response;
        if (request.method == "PUT") {
            response.headers.add("ETag", etag_of(body));
            if (upload.empty()) {
                state.objects[path] = body;
            } else {
                state.uploads[upload][static_cast<int>(
                    parse_int(parameter(request.query, "partNumber")).value_or(0))] = body;
            }
            return response;
        }
        if (request.method == "POST") {
            std::string whole;
            for (const auto& [number, part] : state.uploads[upload]) whole += part;
            state.uploads.erase(upload);
            state.objects[path] = std::move(whole);
            return text(200, "<CompleteMultipartUploadResult/>");
        }
        if (request.method == "DELETE") {
            state.uploads.erase(upload);
            return text(204, "");
        }
        const auto found = state.objects.find(path);
        if (found == state.objects.end()) return s3_fault(404, "NoSuchKey");
        response.headers.add("ETag", etag_of(found->second));
        if (request.method == "HEAD") {
            response.headers.add("Content-Length", std::to_string(found->second.size()));
            response.head_only = true;
            return response;
        }
        if (const auto wanted = request.headers.find("If-Match");
            wanted && *wanted != etag_of(found->second)) {
            return s3_fault(412, "PreconditionFailed");
        }
        const std::vector<std::string> range =
            split(request.headers.get("Range", "bytes=0-").substr(6), '-');
        const auto first = static_cast<std::size_t>(parse_int(range[0]).value_or(0));
        const auto last = static_cast<std::size_t>(
            parse_int(range[1]).value_or(static_cast<long long>(found->second.size()) - 1));
        response.status = 206;
        response.body = found->second.substr(first, last - first + 1);
        return response;
    });
}

}  // namespace ty::agent
