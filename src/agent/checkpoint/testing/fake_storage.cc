// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/testing/fake_storage.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr std::size_t kPage = 100;
constexpr milliseconds kStall{20};

http::Response reply(int status, std::string body = {}) {
    http::Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}
http::Response fault(int status, const std::string& code) {
    return reply(status, "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>" + code +
                             "</Message></Error>");
}
std::string etag_of(const std::string& content) {
    Hasher hasher(HashKind::md5);
    hasher.update(content);
    return to_hex(as_bytes(hasher.finish()));
}
std::string parameter(const std::string& query, std::string_view name) {
    for (const auto& [key, value] : parse_query(query)) {
        if (key == name) return value;
    }
    return {};
}
bool has_parameter(const std::string& query, std::string_view name) {
    return std::ranges::any_of(parse_query(query),
                               [&](const auto& pair) { return pair.first == name; });
}

}  // namespace

FakeStorage::FakeStorage() {
    start();
}
FakeStorage::~FakeStorage() {
    kill();
}

void FakeStorage::start() {
    const Deadline by = Deadline::in(seconds(10));
    while (true) {
        try {
            http::ServerOptions options;
            server_ = std::make_unique<http::Server>(
                sys::Listener::tcp("127.0.0.1", port_),
                [this](http::Request& request) { return serve(request); }, options);
            port_ = server_->port();
            return;
        } catch (const Error&) {  // the old listener's port, for a moment
            if (by.passed()) throw;
            sys::pause(Deadline::in(milliseconds(5)), {});
        }
    }
}
void FakeStorage::kill() {
    server_.reset();
}

MakeClient FakeStorage::make_client(Clock& clock) const {
    return [port = port_, &clock] {
        return std::make_unique<aws::S3Client>(http::Url{"http", "127.0.0.1", port, ""},
                                               aws::Credentials{"AKIDTEST", "verysecret", ""},
                                               "us-west-2", clock);
    };
}

void FakeStorage::set_faults(std::function<Fault(const Call&)> faults) {
    state_.with([&](State& state) { state.faults = std::move(faults); });
}
FakeStorage::Objects FakeStorage::objects() const {
    return state_.with([](const State& state) { return state.objects; });
}
std::vector<std::string> FakeStorage::keys(const std::string& prefix) const {
    return state_.with([&](const State& state) {
        std::vector<std::string> names;
        for (const auto& [name, content] : state.objects) {
            if (name.starts_with(prefix)) names.push_back(name);
        }
        return names;
    });
}
void FakeStorage::put(const std::string& path, std::string content) {
    state_.with([&](State& state) { state.objects[path] = std::move(content); });
}
void FakeStorage::remove(const std::string& path) {
    state_.with([&](State& state) { state.objects.erase(path); });
}
std::string FakeStorage::get(const std::string& path) const {
    return state_.with([&](const State& state) {
        const auto found = state.objects.find(path);
        return found == state.objects.end() ? std::string() : found->second;
    });
}
std::size_t FakeStorage::count(const std::string& method, const std::string& part) const {
    return state_.with([&](const State& state) {
        return static_cast<std::size_t>(std::ranges::count_if(state.calls, [&](const Call& call) {
            return call.method == method && call.path.find(part) != std::string::npos;
        }));
    });
}
void FakeStorage::forget_calls() {
    state_.with([](State& state) { state.calls.clear(); });
}
std::vector<std::string> FakeStorage::complaints() const {
    return state_.with([](const State& state) { return state.complaints; });
}

http::Response FakeStorage::serve(http::Request& request) {
    try {
        std::string body = request.body->read_all(Bytes(1u << 30));
        Call call{request.method, percent_decode(request.path).value_or(""), request.query};
        Fault what = Fault::none;
        const auto faults = state_.with([&](State& state) {
            call.number = state.next_call++;
            state.calls.push_back(call);
            return state.faults;
        });
        if (faults) what = faults(call);
        if (what == Fault::refuse) return fault(503, "SlowDown");
        if (what == Fault::deny) return fault(403, "AccessDenied");
        if (what == Fault::stall) sys::pause(Deadline::in(kStall), request.stop);
        http::Response response = state_.with(
            [&](State& state) { return answer(state, request, call, std::move(body)); });
        if (what == Fault::lose) return fault(503, "ServiceUnavailable");
        if (what == Fault::tear && !response.body.empty()) {
            response.headers.set("Content-Length", std::to_string(response.body.size()));
            response.stream = [half = response.body.substr(0, response.body.size() / 2)](
                                  http::BodyWriter& writer) { writer.write(half); };
        }
        return response;
    } catch (const Error& error) {
        return fault(500, "InternalError");
    }
}

http::Response FakeStorage::list(State& state, const std::string& bucket,
                                 const std::string& query) {
    const std::string start = bucket + "/" + parameter(query, "prefix");
    const std::string after = from_hex(parameter(query, "continuation-token")).value_or("");
    std::string xml = "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>";
    std::size_t listed = 0;
    std::string next;
    for (auto object = state.objects.upper_bound(after); object != state.objects.end(); ++object) {
        if (!object->first.starts_with(start)) continue;
        if (++listed > kPage) {
            next = std::prev(object)->first;
            break;
        }
        xml +=
            format("<Contents><Key>{}</Key><Size>{}</Size><ETag>&quot;{}&quot;</ETag></Contents>",
                   percent_encode(object->first.substr(bucket.size() + 1), Slash::keep),
                   object->second.size(), etag_of(object->second));
    }
    xml += next.empty() ? std::string("<IsTruncated>false</IsTruncated>")
                        : "<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                              to_hex(as_bytes(next)) + "</NextContinuationToken>";
    return reply(200, xml + "</ListBucketResult>");
}

http::Response FakeStorage::answer(State& state, const http::Request& request, const Call& call,
                                   std::string body) {
    const std::string path = call.path.substr(1);
    const std::string upload = parameter(call.query, "uploadId");
    if (request.method == "POST" && has_parameter(call.query, "delete")) {
        state.complaints.push_back("DeleteObjects");
        return fault(501, "NotImplemented");
    }
    if (request.method == "GET" && path.find('/') == std::string::npos)
        return list(state, path, call.query);
    http::Response response;
    if (request.method == "POST" && has_parameter(call.query, "uploads")) {
        const std::string id = format("upload-{}", ++state.next_upload);
        state.uploads[id];
        return reply(200, "<InitiateMultipartUploadResult><UploadId>" + id +
                              "</UploadId></InitiateMultipartUploadResult>");
    }
    if (request.method == "PUT") {
        if (const auto source = request.headers.find("x-amz-copy-source")) {
            const std::string from = percent_decode(source->substr(1)).value_or("");
            const auto found = state.objects.find(from);
            if (found == state.objects.end()) return fault(404, "NoSuchKey");
            const std::string etag = etag_of(found->second);
            const std::string wanted(request.headers.get("x-amz-copy-source-if-match"));
            if (!wanted.empty() && replace_all(wanted, "\"", "") != etag)
                return fault(412, "PreconditionFailed");
            const std::string content = found->second;
            state.objects[path] = content;
            return reply(200, "<CopyObjectResult><ETag>" + etag + "</ETag></CopyObjectResult>");
        }
        response.headers.add("ETag", '"' + etag_of(body) + '"');
        if (upload.empty())
            state.objects[path] = std::move(body);
        else if (!state.uploads.contains(upload))
            return fault(404, "NoSuchUpload");
        else
            state.uploads[upload][static_cast<int>(
                parse_int(parameter(call.query, "partNumber")).value_or(0))] = std::move(body);
        return response;
    }
    if (request.method == "POST") {
        const auto found = state.uploads.find(upload);
        if (found == state.uploads.end()) return fault(404, "NoSuchUpload");
        std::string whole;
        for (const auto& [number, part] : found->second) whole += part;
        state.uploads.erase(found);
        state.objects[path] = std::move(whole);
        return reply(200, "<CompleteMultipartUploadResult/>");
    }
    if (request.method == "DELETE") {
        if (upload.empty())
            state.objects.erase(path);
        else
            state.uploads.erase(upload);
        return reply(204);
    }
    const auto found = state.objects.find(path);
    if (found == state.objects.end()) return fault(404, "NoSuchKey");
    const std::string etag = '"' + etag_of(found->second) + '"';
    response.headers.add("ETag", etag);
    if (request.method == "HEAD") {
        response.headers.add("Content-Length", std::to_string(found->second.size()));
        response.head_only = true;
        return response;
    }
    if (const auto wanted = request.headers.find("If-Match"); wanted && *wanted != etag)
        return fault(412, "PreconditionFailed");
    const std::vector<std::string> range =
        split(request.headers.get("Range", "bytes=0-").substr(6), '-');
    const auto first = static_cast<std::size_t>(parse_int(range[0]).value_or(0));
    const auto last = static_cast<std::size_t>(
        parse_int(range[1]).value_or(static_cast<long long>(found->second.size()) - 1));
    response.status = 206;
    response.body = found->second.substr(first, last - first + 1);
    return response;
}

}  // namespace ty::agent
