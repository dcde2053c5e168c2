// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/place.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

constexpr std::string_view kManifests = ".trainyard/manifests/";
constexpr std::string_view kData = ".trainyard/data/";
constexpr std::string_view kOurs = ".trainyard/";
constexpr std::size_t kLongestKey = 1024;
constexpr std::size_t kLongestId = 6 + 9 + 9 + 3 + 64;
constexpr std::uint64_t kLargestManifest = 512u << 20;
constexpr std::uint64_t kLargestCopy = 5ull << 30;  // of one CopyObject, says S3
constexpr std::uint64_t kCopyPart = 1ull << 30;

struct Address {
    std::string scheme, bucket, prefix;
};

Address parse_address(const std::string& uri) {
    for (const std::string_view scheme : {"s3", "gs"}) {
        const std::string start = std::string(scheme) + "://";
        if (!equals_ignoring_case(std::string_view(uri).substr(0, start.size()), start)) continue;
        const std::string rest = uri.substr(start.size());
        const std::size_t slash = std::min(rest.find('/'), rest.size());
        std::string prefix = slash < rest.size() ? rest.substr(slash + 1) : "";
        while (prefix.ends_with('/')) prefix.pop_back();
        if (slash == 0) break;
        return {std::string(scheme), rest.substr(0, slash), prefix.empty() ? "" : prefix + '/'};
    }
    throw_error(Code::invalid, "InvalidS3Uri",
                "checkpoint S3Uri \"{}\" is no place; write s3://bucket/prefix or "
                "gs://bucket/prefix",
                to_valid_utf8(uri));
}

http::Url parse_endpoint(const plan::Checkpoint& checkpoint) {
    http::Url url = http::parse_url(checkpoint.endpoint);
    if (url.scheme != "http")
        throw_error(Code::unsupported, "NoTls",
                    "checkpoint endpoint \"{}\": the agent speaks plain http only; run a gateway "
                    "with a plain http side on a network you trust (for example a reverse proxy "
                    "to {}) and name that as endpoint",
                    checkpoint.endpoint, url.host);
    return url;
}

/// Appends to the listing what is an id.
void add_manifest(std::vector<CheckpointId>& ids, std::string_view name) {
    if (!name.ends_with(".json")) return;
    name.remove_suffix(5);
    if (auto id = CheckpointId::parse(name)) ids.push_back(*std::move(id));
}

}  // namespace

CheckpointPlace::CheckpointPlace(const CheckpointOptions& options, Clock& clock) {
    Address address = parse_address(options.checkpoint.uri);
    bucket_ = std::move(address.bucket);
    prefix_ = std::move(address.prefix);
    if (options.checkpoint.endpoint.empty()) {
        if (address.scheme == "gs")
            throw_error(Code::unsupported, "NoEndpoint",
                        "checkpoint S3Uri \"{}\" lies elsewhere and has no endpoint; configure a "
                        "plain http endpoint that speaks S3 for gs:// with an HMAC key",
                        options.checkpoint.uri);
        make_client_ = options.make_client;
        return;
    }
    const http::Url url = parse_endpoint(options.checkpoint);
    const plan::Credentials& keys = options.checkpoint.credentials;
    const aws::Credentials credentials{keys.access_key, keys.secret_key, keys.session_token};
    const std::string region = address.scheme == "gs" ? "auto" : options.region;
    make_client_ = [url, credentials, region, &clock] {
        return std::make_unique<aws::S3Client>(url, credentials, region, clock);
    };
}

bool CheckpointPlace::has_room_for(std::string_view path) const {
    const std::size_t encoded = percent_encode(path, Slash::keep).size();
    return prefix_.size() + kData.size() + kLongestId + 1 + encoded <= kLongestKey;
}

CheckpointPlace::Content CheckpointPlace::list_all(aws::S3Client& client, Deadline by,
                                                   const std::stop_token& stop) const {
    Content content;
    for (aws::S3Client::Object& object : client.list(bucket_, prefix_, by, stop)) {
        const std::string_view name = std::string_view(object.key).substr(prefix_.size());
        if (name.starts_with(kManifests))
            add_manifest(content.manifests, name.substr(kManifests.size()));
        else if (name.starts_with(kData))
            content.data[std::string(name.substr(kData.size()))] = {object.size,
                                                                    std::move(object.etag)};
        else if (!name.starts_with(kOurs))
            content.visible[std::string(name)] = {object.size, std::move(object.etag)};
    }
    std::ranges::sort(content.manifests);
    return content;
}

std::vector<CheckpointId> CheckpointPlace::list_manifests(aws::S3Client& client, Deadline by,
                                                          const std::stop_token& stop) const {
    std::vector<CheckpointId> ids;
    const std::string below = prefix_ + std::string(kManifests);
    for (const aws::S3Client::Object& object : client.list(bucket_, below, by, stop))
        add_manifest(ids, std::string_view(object.key).substr(below.size()));
    std::ranges::sort(ids);
    return ids;
}

StoredObjects CheckpointPlace::list_data(aws::S3Client& client, Deadline by,
                                         const std::stop_token& stop) const {
    StoredObjects data;
    const std::string below = prefix_ + std::string(kData);
    for (aws::S3Client::Object& object : client.list(bucket_, below, by, stop))
        data[object.key.substr(below.size())] = {object.size, std::move(object.etag)};
    return data;
}

Manifest CheckpointPlace::read_manifest(aws::S3Client& client, const CheckpointId& id, Deadline by,
                                        const std::stop_token& stop) const {
    const std::string name = key(manifest_key(id));
    const auto head = client.head(bucket_, name, by, stop);
    if (!head) throw_error(Code::not_found, "NoSuchKey", "checkpoint {} is gone", id.str());
    if (head->size > kLargestManifest)
        throw_error(Code::corrupt, "BadManifest", "checkpoint {}: its manifest has {}, beyond {}",
                    id.str(), to_string(Bytes(head->size)), to_string(Bytes(kLargestManifest)));
    std::string text;
    text.reserve(head->size);
    client.get(
        bucket_, name, 0, head->size, head->etag,
        [&](std::span<const std::byte> data) {
            text.append(reinterpret_cast<const char*>(data.data()), data.size());
        },
        by, stop);
    return parse_manifest(text, id);
}

void CheckpointPlace::copy(aws::S3Client& client, const std::string& from, const std::string& etag,
                           std::uint64_t size, const std::string& to, Deadline by,
                           const std::stop_token& stop) const {
    if (size <= kLargestCopy) {
        client.copy(bucket_, key(from), etag, bucket_, key(to), by, stop);
        return;
    }
    const std::string upload = client.start_upload(bucket_, key(to), by, stop);
    std::vector<std::string> etags;
    for (std::uint64_t offset = 0; offset < size; offset += kCopyPart) {
        const aws::S3Client::Range range{bucket_, key(from), etag, offset,
                                         std::min(kCopyPart, size - offset)};
        etags.push_back(client.put_part_copy(bucket_, key(to), upload,
                                             static_cast<int>(etags.size()) + 1, range, by, stop));
    }
    client.complete_upload(bucket_, key(to), upload, etags, by, stop);
}

}  // namespace ty::agent
