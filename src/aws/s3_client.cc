// SPDX-License-Identifier: Apache-2.0
// S3Client: the calls agent and CLI need, path style, over one keep-alive connection.
//
// Everything here may be repeated: reads by nature, PutObject and UploadPart because the same bytes
// land under the same name, CompleteMultipartUpload because a repeat of a finished one is
// recognised by the object's ETag. So one rule serves all: `unavailable` waits and tries again
// until the deadline.
#include "aws/client_errors.h"
#include "aws/signature.h"
#include "aws/xml_scan.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/retry.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>

namespace ty::aws {

namespace {

constexpr milliseconds kFirstDelay{50};
constexpr milliseconds kLongestDelay{3000};

std::string crc32_base64(std::string_view body) {
    Hasher hasher(HashKind::crc32);
    hasher.update(body);
    return to_base64(as_bytes(hasher.finish()));
}

/// What S3 will call an object made of these parts: md5 of the parts' md5s, and their number.
std::string multipart_etag(const std::vector<std::string>& etags) {
    Hasher hasher(HashKind::md5);
    for (const std::string& etag : etags)
        hasher.update(from_hex(replace_all(etag, "\"", "")).value_or(""));
    return to_hex(as_bytes(hasher.finish())) + '-' + std::to_string(etags.size());
}

std::string copy_source(const std::string& bucket, const std::string& key) {
    return '/' + percent_encode(bucket) + '/' + percent_encode(key, Slash::keep);
}

std::string clean_etag(const http::Headers& headers) {
    return replace_all(headers.get("etag"), "\"", "");
}

std::string completion_document(const std::vector<std::string>& etags) {
    XmlWriter xml;
    xml.open("CompleteMultipartUpload", {{"xmlns", "http://s3.amazonaws.com/doc/2006-03-01/"}});
    for (std::size_t i = 0; i < etags.size(); ++i)
        xml.open("Part")
            .element("PartNumber", i + 1)
            .element("ETag", '"' + replace_all(etags[i], "\"", "") + '"')
            .close();
    return std::move(xml).finish();
}

}  // namespace

struct S3Client::Impl {
    Impl(http::Url url, Credentials keys, std::string region_name, Clock& source)
        : endpoint(std::move(url)),
          credentials(std::move(keys)),
          region(std::move(region_name)),
          clock(source),
          client(endpoint) {
        const bool usual = (endpoint.scheme == "http" && endpoint.port == 80);
        host = usual ? endpoint.host : endpoint.host + ':' + std::to_string(endpoint.port);
    }

    struct Ask {
        std::string method, bucket, key, query;
        http::Headers headers;
        std::string_view body;
        std::string what() const { return format("{} s3://{}/{}", method, bucket, key); }
    };
    using Sink = std::function<void(std::span<const std::byte>)>;

    /// One try. Throws unavailable for answers worth repeating; other answers are returned.
    http::ClientResponse once(const Ask& ask, Deadline by, const std::stop_token& stop,
                              const Sink& sink) {
        if (gate) gate();
        http::ClientRequest request;
        request.method = ask.method;
        request.target = endpoint.path + '/' + percent_encode(ask.bucket);
        if (!ask.key.empty()) request.target += '/' + percent_encode(ask.key, Slash::keep);
        if (!ask.query.empty()) request.target += '?' + ask.query;
        request.headers = ask.headers;
        request.headers.set("Host", host);  // what is signed is what is sent
        request.body = ask.body;
        sign(request, host, credentials, region, "s3", clock.now(), kUnsignedPayload);
        http::ClientResponse response = client.send(request, by, stop, sink);
        if (response.status / 100 == 2) return response;
        Error error = s3_error(response, ask.what());
        if (error.code() == Code::unavailable) throw error;
        return response;
    }

    /// Repeat fn while it throws unavailable, until the deadline or stop.
    template <typename Fn>
    auto persist(Deadline by, const std::stop_token& stop, Fn&& fn) {
        Backoff backoff(kFirstDelay, kLongestDelay);
        while (true) {
            auto outcome = capture(fn);
            if (outcome.ok() || outcome.error().code() != Code::unavailable)
                return std::move(outcome).value();
            const milliseconds delay = backoff.next();
            if (by.left() <= delay) return std::move(outcome).value();  // throws the last failure
            if (!sys::pause(Deadline::in(delay), stop))
                throw_error(Code::cancelled, "", "stopped while repeating: {}",
                            outcome.error().message());
        }
    }

    /// A server-side copy: S3 may send 200 first and an error later.
    http::ClientResponse copy(const Ask& ask, Deadline by, const std::stop_token& stop) {
        http::ClientResponse response = persist(by, stop, [&] {
            http::ClientResponse answer = once(ask, by, stop, {});
            if (answer.status == 200 && find_fault(answer.body)) {
                answer.status = 500;
                throw s3_error(answer, ask.what());
            }
            return answer;
        });
        if (response.status == 501 || response.status == 405)
            throw_error(Code::unsupported, "NotImplemented",
                        "{}: this storage cannot copy objects by itself", ask.what());
        if (response.status / 100 != 2) throw s3_error(response, ask.what());
        return response;
    }

    http::ClientResponse call(const Ask& ask, Deadline by, const std::stop_token& stop) {
        http::ClientResponse response = persist(by, stop, [&] { return once(ask, by, stop, {}); });
        if (response.status / 100 != 2) throw s3_error(response, ask.what());
        return response;
    }

    http::Url endpoint;
    Credentials credentials;
    std::string region, host;
    Clock& clock;
    http::Client client;
    std::function<void()> gate;
};

S3Client::S3Client(http::Url endpoint, Credentials credentials, std::string region, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(endpoint), std::move(credentials), std::move(region),
                                   clock)) {}
S3Client::~S3Client() = default;

std::vector<S3Client::Object> S3Client::list(const std::string& bucket, const std::string& prefix,
                                             Deadline by, const std::stop_token& stop) {
    std::vector<Object> objects;
    std::string token;
    while (true) {
        Impl::Ask ask{.method = "GET", .bucket = bucket};
        ask.query = "list-type=2&encoding-type=url&prefix=" + percent_encode(prefix);
        if (!token.empty()) ask.query += "&continuation-token=" + percent_encode(token);
        ListPage page = parse_list_page(impl_->call(ask, by, stop).body);
        for (ListedObject& listed : page.objects)
            objects.push_back({std::move(listed.key), listed.size, std::move(listed.etag)});
        if (!page.truncated) return objects;
        if (page.next.empty() || page.next == token)
            throw_error(Code::corrupt, "MalformedXML",
                        "listing s3://{}/{}: a truncated page gives no new token", bucket, prefix);
        token = std::move(page.next);
    }
}

std::optional<S3Client::Head> S3Client::head(const std::string& bucket, const std::string& key,
                                             Deadline by, const std::stop_token& stop) {
    const Impl::Ask ask{.method = "HEAD", .bucket = bucket, .key = key};
    const auto response = impl_->persist(by, stop, [&] { return impl_->once(ask, by, stop, {}); });
    if (response.status == 404) return std::nullopt;
    if (response.status / 100 != 2) throw s3_error(response, ask.what());
    const auto size = parse_int(response.headers.get("content-length"));
    if (!size || *size < 0)
        throw_error(Code::corrupt, "", "{}: the answer gives no Content-Length", ask.what());
    return Head{std::uint64_t(*size), clean_etag(response.headers)};
}

void S3Client::get(const std::string& bucket, const std::string& key, std::uint64_t offset,
                   std::uint64_t length, const std::string& etag, const Sink& sink, Deadline by,
                   const std::stop_token& stop) {
    std::uint64_t done = 0;
    Impl::Ask ask{.method = "GET", .bucket = bucket, .key = key};
    if (!etag.empty()) ask.headers.set("If-Match", '"' + etag + '"');
    // A broken transfer goes on behind the last byte that arrived; the etag keeps versions from
    // mixing.
    const auto fetch = [&] {
        ask.headers.set("Range", format("bytes={}-{}", offset + done, offset + length - 1));
        http::ClientResponse response =
            impl_->once(ask, by, stop, [&](std::span<const std::byte> data) {
                if (data.size() > length - done)
                    throw_error(Code::corrupt, "", "{}: more bytes arrived than the range of {}",
                                ask.what(), length);
                done += data.size();
                sink(data);
            });
        if (response.status == 200 && (offset > 0 || done != length))
            throw_error(Code::corrupt, "", "{}: the server ignored the Range header", ask.what());
        if (response.status / 100 == 2 && done < length)
            throw_error(Code::unavailable, "", "{}: {} of {} bytes arrived", ask.what(), done,
                        length);
        return response;
    };
    if (length == 0) return;
    const auto response = impl_->persist(by, stop, fetch);
    if (response.status / 100 != 2) throw s3_error(response, ask.what());
}

void S3Client::put(const std::string& bucket, const std::string& key, std::string_view body,
                   Deadline by, const std::stop_token& stop) {
    Impl::Ask ask{.method = "PUT", .bucket = bucket, .key = key, .body = body};
    ask.headers.set("x-amz-checksum-crc32", crc32_base64(body));
    impl_->call(ask, by, stop);
}

std::string S3Client::start_upload(const std::string& bucket, const std::string& key, Deadline by,
                                   const std::stop_token& stop) {
    const Impl::Ask ask{.method = "POST", .bucket = bucket, .key = key, .query = "uploads="};
    auto upload = find_element(impl_->call(ask, by, stop).body, "UploadId");
    if (!upload || upload->empty())
        throw_error(Code::corrupt, "MalformedXML", "{}: the answer holds no UploadId", ask.what());
    return *std::move(upload);
}

std::string S3Client::put_part(const std::string& bucket, const std::string& key,
                               const std::string& upload, int number, std::string_view body,
                               Deadline by, const std::stop_token& stop) {
    Impl::Ask ask{.method = "PUT", .bucket = bucket, .key = key, .body = body};
    ask.query = format("partNumber={}&uploadId={}", number, percent_encode(upload));
    ask.headers.set("x-amz-checksum-crc32", crc32_base64(body));
    std::string etag = clean_etag(impl_->call(ask, by, stop).headers);
    if (etag.empty())
        throw_error(Code::corrupt, "", "{}: part {} was answered without an ETag", ask.what(),
                    number);
    return etag;
}

std::string S3Client::put_part_copy(const std::string& bucket, const std::string& key,
                                    const std::string& upload, int number, const Range& from,
                                    Deadline by, const std::stop_token& stop) {
    Impl::Ask ask{.method = "PUT", .bucket = bucket, .key = key};
    ask.query = format("partNumber={}&uploadId={}", number, percent_encode(upload));
    ask.headers.set("x-amz-copy-source", copy_source(from.bucket, from.key));
    ask.headers.set("x-amz-copy-source-range",
                    format("bytes={}-{}", from.offset, from.offset + from.length - 1));
    if (!from.etag.empty()) ask.headers.set("x-amz-copy-source-if-match", '"' + from.etag + '"');
    const auto etag = find_element(impl_->copy(ask, by, stop).body, "ETag");
    if (!etag || etag->empty())
        throw_error(Code::corrupt, "MalformedXML",
                    "{}: copied part {} was answered without an ETag", ask.what(), number);
    return replace_all(*etag, "\"", "");
}

void S3Client::copy(const std::string& from_bucket, const std::string& from_key,
                    const std::string& etag, const std::string& bucket, const std::string& key,
                    Deadline by, const std::stop_token& stop) {
    Impl::Ask ask{.method = "PUT", .bucket = bucket, .key = key};
    ask.headers.set("x-amz-copy-source", copy_source(from_bucket, from_key));
    if (!etag.empty()) ask.headers.set("x-amz-copy-source-if-match", '"' + etag + '"');
    impl_->copy(ask, by, stop);
}

void S3Client::remove(const std::string& bucket, const std::string& key, Deadline by,
                      const std::stop_token& stop) {
    const Impl::Ask ask{.method = "DELETE", .bucket = bucket, .key = key};
    const auto response = impl_->persist(by, stop, [&] { return impl_->once(ask, by, stop, {}); });
    if (response.status / 100 == 2 || response.status == 404) return;
    throw s3_error(response, ask.what());
}

void S3Client::set_gate(std::function<void()> gate) {
    impl_->gate = std::move(gate);
}

void S3Client::complete_upload(const std::string& bucket, const std::string& key,
                               const std::string& upload, const std::vector<std::string>& etags,
                               Deadline by, const std::stop_token& stop) {
    const std::string body = completion_document(etags);
    const Impl::Ask ask{.method = "POST",
                        .bucket = bucket,
                        .key = key,
                        .query = "uploadId=" + percent_encode(upload),
                        .body = body};
    int tries = 0;
    const auto response = impl_->persist(by, stop, [&] {
        ++tries;
        http::ClientResponse answer = impl_->once(ask, by, stop, {});
        // S3 may send 200 first and an error later.
        if (answer.status == 200 && find_fault(answer.body)) answer.status = 500;
        if (answer.status == 500) throw s3_error(answer, ask.what());
        return answer;
    });
    if (response.status / 100 == 2) return;
    Error error = s3_error(response, ask.what());
    if (tries > 1 && error.reason() == "NoSuchUpload") {
        const auto there = head(bucket, key, by, stop);
        if (there && there->etag == multipart_etag(etags)) return;  // the first try had succeeded
    }
    throw error;
}

void S3Client::abort_upload(const std::string& bucket, const std::string& key,
                            const std::string& upload, Deadline by, const std::stop_token& stop) {
    const Impl::Ask ask{.method = "DELETE",
                        .bucket = bucket,
                        .key = key,
                        .query = "uploadId=" + percent_encode(upload)};
    const auto response = impl_->persist(by, stop, [&] { return impl_->once(ask, by, stop, {}); });
    if (response.status / 100 == 2 || response.status == 404) return;
    throw s3_error(response, ask.what());
}

}  // namespace ty::aws
