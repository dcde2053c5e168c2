// SPDX-License-Identifier: Apache-2.0
#include "api/control/checkpoints.h"

#include "aws/aws.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>

namespace ty::api::control {

namespace {

constexpr std::string_view kManifests = ".trainyard/manifests/";
constexpr std::string_view kSuffix = ".json";
constexpr std::uint64_t kLargestManifest = 64u << 20;

/// The manifest's text; empty when it went away or is beyond reason.
std::string read_object(const objects::ObjectStore& store, const Shelf& shelf,
                        const std::string& key) {
    if (!store.find(shelf.bucket, key)) return {};
    const objects::OpenObject open = store.open(shelf.bucket, key);
    if (open.info.size > kLargestManifest) return {};
    std::string text(open.info.size, '\0');
    std::size_t have = 0;
    while (have < text.size()) {
        const ssize_t got = ::pread(open.file.get(), text.data() + have, text.size() - have,
                                    static_cast<off_t>(have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno("read s3://{}/{}", shelf.bucket, key);
        if (got == 0) break;
        have += static_cast<std::size_t>(got);
    }
    text.resize(have);
    return text;
}

void check_objects(const objects::ObjectStore& store, const Shelf& shelf, StoredCheckpoint& of) {
    for (const StoredFile& file : of.files) {
        const auto found = store.find(shelf.bucket, shelf.key(file.key));
        if (!found)
            of.problem = format("{} is missing", visible_key(file.path));
        else if (found->size != file.size)
            of.problem = format("{} has {} bytes and should have {}", visible_key(file.path),
                                found->size, file.size);
        if (!of.problem.empty()) return;
    }
}

Json document_of(const StoredCheckpoint& checkpoint) {
    Json out = {{"id", checkpoint.id}, {"valid", checkpoint.problem.empty()}};
    if (!checkpoint.problem.empty()) out["problem"] = to_valid_utf8(checkpoint.problem);
    if (checkpoint.taken == Instant()) return out;  // nothing of it could be read
    out["step"] = checkpoint.step ? Json(*checkpoint.step) : Json(nullptr);
    out["taken"] = format_iso8601(checkpoint.taken);
    out["size"] = checkpoint.size();
    out["files"] = checkpoint.files.size();
    out["node"] = checkpoint.name.node;
    out["job"] = to_valid_utf8(checkpoint.job);
    out["attempt"] = checkpoint.attempt;
    return out;
}

}  // namespace

std::string Shelf::key(std::string_view below) const {
    return prefix.empty() ? std::string(below) : format("{}/{}", prefix, below);
}

Shelf shelf_at(const std::string& uri) {
    const aws::S3Uri parsed = aws::parse_s3_uri(uri);
    std::string prefix = parsed.key;
    while (prefix.ends_with('/')) prefix.pop_back();
    return {.uri = format("s3://{}{}{}", parsed.bucket, prefix.empty() ? "" : "/", prefix),
            .bucket = parsed.bucket,
            .prefix = prefix};
}

Shelf shelf_of(const jobs::Job& job) {
    const auto& checkpoint = job.spec.node.checkpoint;
    if (!checkpoint)
        throw_error(Code::invalid, "ValidationException",
                    "training job \"{}\" keeps no checkpoints; create it with CheckpointConfig",
                    job.spec.name);
    if (!checkpoint->endpoint.empty() || !to_lower(checkpoint->uri).starts_with("s3://"))
        throw_error(Code::invalid, "ValidationException",
                    "the checkpoints of training job \"{}\" lie at {}, which is not Trainyard's "
                    "own storage; list them with that storage's tools, below .trainyard/manifests",
                    job.spec.name, checkpoint->uri);
    return shelf_at(checkpoint->uri);
}

std::vector<StoredCheckpoint> find_checkpoints(const objects::ObjectStore& store,
                                               const Shelf& shelf) {
    std::vector<StoredCheckpoint> found;
    if (!store.find_bucket(shelf.bucket)) return found;
    const std::string folder = shelf.key(kManifests);
    objects::ListQuery query{.prefix = folder, .delimiter = {}, .after = {}};
    for (;;) {
        const objects::Listing page = store.list(shelf.bucket, query);
        for (const objects::ObjectInfo& object : page.objects) {
            const std::string_view name = std::string_view(object.key).substr(folder.size());
            if (!name.ends_with(kSuffix)) continue;
            found.push_back(read_manifest(std::string(name.substr(0, name.size() - kSuffix.size())),
                                          read_object(store, shelf, object.key)));
            if (found.back().problem.empty()) check_objects(store, shelf, found.back());
        }
        if (!page.truncated) break;
        query.after = page.next;
    }
    std::ranges::sort(found, std::ranges::greater(),
                      [](const StoredCheckpoint& c) { return c.id; });
    return found;
}

Json list_checkpoints(const Asked& asked) {
    const jobs::Job job = require_job(asked);
    const Shelf shelf = shelf_of(job);
    Json list = Json::array();
    for (const StoredCheckpoint& checkpoint : find_checkpoints(asked.call.services.objects, shelf))
        list.push_back(document_of(checkpoint));
    return {{"job", job.spec.name}, {"uri", shelf.uri}, {"checkpoints", std::move(list)}};
}

}  // namespace ty::api::control
