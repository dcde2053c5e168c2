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

void FakeDaemon::prepare(const sys::fs::path& folder, const std::string& node) const {
    sys::fs::create_directories(folder);
    sys::write_file(folder / "start.json", dump_json(Json{{"host", node},
                                                          {"control_plane", url()},
                                                          {"token", token_of(node)},
                                                          {"network", network},
                                                          {"gpus", gpus}}));
}

std::string FakeDaemon::token_of(const std::string& node) const {
    return node == "algo-1" ? token : token + "." + node;
}

plan::NodePlan FakeDaemon::plan_of(const std::string& node) const {
    plan::NodePlan own = plan;
    own.host = node.substr(0, node.find('~'));
    own.stream = plan.job_name + "/" + node + "-1";
    return own;
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
int FakeDaemon::copies() const {
    return state_.with([](const State& state) { return state.copies; });
}
void FakeDaemon::command(plan::Command command, const std::string& node) {
    state_.with([&](State& state) { state.nodes[node].commands.push_back(command); });
    state_.notify();
}
void FakeDaemon::be_away(bool away) {
    state_.with([&](State& state) { state.away = away; });
    state_.notify();
}
void FakeDaemon::hide_storage(bool away) {
    state_.with([&](State& state) { state.storage_away = away; });
}
milliseconds FakeDaemon::longest_silence() const {
    return state_.with([](const State& state) { return state.longest_silence; });
}
void FakeDaemon::forget() {
    state_.with([](State& state) { state.forgotten = true; });
    state_.notify();
}
std::vector<plan::Event> FakeDaemon::events(const std::string& node) const {
    return state_.with([&](State& state) { return state.nodes[node].events; });
}
std::vector<std::string> FakeDaemon::lines(const std::string& node) const {
    return state_.with([&](State& state) { return state.nodes[node].lines; });
}
std::vector<std::string> FakeDaemon::complaints() const {
    return state_.with([](const State& state) { return state.complaints; });
}

bool FakeDaemon::wait_for_line(const std::string& wanted, const std::string& node) const {
    const auto found = [&](const State& state) {
        const auto at = state.nodes.find(node);
        return at != state.nodes.end() &&
               std::ranges::any_of(at->second.lines, [&](const std::string& line) {
                   return line.find(wanted) != std::string::npos;
               });
    };
    return state_.wait(Deadline::in(kWait), {}, found, found);
}
bool FakeDaemon::has_line(const std::string& wanted, const std::string& node) const {
    const std::vector<std::string> all = lines(node);
    return std::ranges::any_of(
        all, [&](const std::string& line) { return line.find(wanted) != std::string::npos; });
}

std::optional<plan::Finished> FakeDaemon::finished(const std::string& node) const {
    for (const plan::Event& event : events(node)) {
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
    const Monotonic now = SystemClock().monotonic();
    state_.with([&](State& state) {
        if (state.last_call) {
            state.longest_silence =
                std::max(state.longest_silence,
                         std::chrono::duration_cast<milliseconds>(now - *state.last_call));
        }
        state.last_call = now;
    });
    const auto [away, forgotten] =
        state_.with([](const State& state) { return std::pair(state.away, state.forgotten); });
    std::string bearer(request.headers.get("Authorization"));
    if (forgotten || !bearer.starts_with("Bearer " + token)) return text(401, "");
    if (away) return text(503, "");
    bearer.erase(0, std::string("Bearer ").size() + token.size());
    const std::string node = bearer.empty() ? "algo-1" : bearer.substr(1);
    if (what == "plan") return text(200, plan::to_json(plan_of(node)));
    if (what == "sync") return sync(node, body, request.stop);
    if (what == "logs") return logs(node, request.query, body);
    return text(404, "");
}

http::Response FakeDaemon::sync(const std::string& node, const std::string& body,
                                const std::stop_token& stop) {
    const plan::SyncRequest request = plan::sync_request_from_json(body);
    plan::SyncReply reply;
    state_.with([&](State& state) {
        std::vector<plan::Event>& events = state.nodes[node].events;
        if (request.host != node)
            state.complaints.push_back(format("{} says it is {}", node, request.host));
        for (const plan::Event& event : request.events) {
            if (event.seq <= events.size()) continue;
            if (event.seq != events.size() + 1)
                state.complaints.push_back(format("event {} after {}", event.seq, events.size()));
            events.push_back(event);
        }
    });
    state_.notify();
    const auto ready = [&](State& state) {
        return state.nodes[node].commands.size() > request.commands_seen || state.forgotten ||
               state.away;
    };
    state_.wait(Deadline::in(std::min<milliseconds>(request.wait, 500ms)), stop, ready,
                [&](State& state) {
                    const Node& own = state.nodes[node];
                    reply.acknowledged = own.events.size();
                    reply.gone = state.forgotten;
                    if (own.commands.size() > request.commands_seen) {
                        reply.command = own.commands[request.commands_seen];
                        reply.command_number = request.commands_seen + 1;
                    }
                });
    return text(200, plan::to_json(reply));
}

http::Response FakeDaemon::logs(const std::string& node, const std::string& query,
                                const std::string& body) {
    std::size_t index = static_cast<std::size_t>(parse_int(parameter(query, "first")).value_or(-1));
    const std::string stream = plan_of(node).stream;
    const std::size_t next = state_.with([&](State& state) {
        Node& own = state.nodes[node];
        if (parameter(query, "stream") != stream) state.complaints.push_back("wrong stream");
        if (index > own.lines.size())
            state.complaints.push_back(format("line {} after {}", index, own.lines.size()));
        for (const plan::Event& event : own.events) {
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
            if (index >= own.lines.size()) own.lines.push_back(body.substr(newline + 1, size));
            ++index;
            at = newline + 1 + size + 1;
        }
        return own.lines.size();
    });
    state_.notify();
    return text(200, dump_json(Json{{"next", next}}));
}

http::Response FakeDaemon::serve_s3(http::Request& request) {
    const std::string path = percent_decode(request.path.substr(1)).value_or("");
    const std::string body = request.body->read_all(Bytes(1u << 30));
    const std::string upload = parameter(request.query, "uploadId");
    return state_.with([&](State& state) {
        if (state.away || state.storage_away) return text(503, "");
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
            std::string content = body;
            if (const auto source = request.headers.find("x-amz-copy-source")) {
                const auto from =
                    state.objects.find(percent_decode(source->substr(1)).value_or(""));
                if (from == state.objects.end()) return s3_fault(404, "NoSuchKey");
                if (const auto wanted = request.headers.find("x-amz-copy-source-if-match");
                    wanted && *wanted != etag_of(from->second))
                    return s3_fault(412, "PreconditionFailed");
                content = from->second;
                if (const auto range = request.headers.find("x-amz-copy-source-range")) {
                    const std::vector<std::string> ends = split(range->substr(6), '-');
                    const auto first = static_cast<std::size_t>(parse_int(ends[0]).value_or(0));
                    const auto last = static_cast<std::size_t>(parse_int(ends[1]).value_or(0));
                    content = content.substr(first, last - first + 1);
                }
                ++state.copies;
                response.body = "<CopyResult><ETag>" +
                                replace_all(etag_of(content), "\"", "&quot;") +
                                "</ETag></CopyResult>";
            }
            response.headers.add("ETag", etag_of(content));
            if (upload.empty()) {
                state.objects[path] = std::move(content);
            } else {
                state.uploads[upload][static_cast<int>(
                    parse_int(parameter(request.query, "partNumber")).value_or(0))] =
                    std::move(content);
            }
            return response;
        }
        if (request.method == "POST") {
            std::string whole;
            const std::map<int, std::string>& parts = state.uploads[upload];
            for (const auto& [number, part] : parts) {
                if (part.size() < (5u << 20) && number != parts.rbegin()->first)
                    return s3_fault(400, "EntityTooSmall");
                whole += part;
            }
            state.uploads.erase(upload);
            state.objects[path] = std::move(whole);
            return text(200, "<CompleteMultipartUploadResult/>");
        }
        if (request.method == "DELETE") {
            if (upload.empty()) state.objects.erase(path);
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
