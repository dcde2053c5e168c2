// SPDX-License-Identifier: Apache-2.0
// A new job that begins where a checkpoint of another one was: the same request under another name,
// with the checkpoint's files copied, as plain files, to a prefix of its own. What an ordinary job
// finds there it restores; nothing of the old job is touched.
#include "api/control/checkpoints.h"
#include "api/control/fields.h"
#include "api/sagemaker/service.h"
#include "base/log.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace ty::api::control {

namespace {

struct Wish {
    std::string name, uri;
};
Wish wish_of(const Asked& asked) {
    constexpr std::array<std::string_view, 2> kKnown{"name", "uri"};
    Fields fields(asked.call.body, kKnown);
    if (!fields.has("name"))
        fields.problem("name", "is missing; give the name of the new training job");
    Wish wish{fields.text("name").value_or(""), fields.text("uri").value_or("")};
    fields.finish();
    return wish;
}

const StoredCheckpoint& choose(const std::vector<StoredCheckpoint>& all, const Asked& asked) {
    const auto found = std::ranges::find(all, asked.checkpoint, &StoredCheckpoint::id);
    if (found == all.end())
        throw_error(Code::not_found, "",
                    "training job \"{}\" has no checkpoint \"{}\"; list them with trainyard "
                    "checkpoints {}",
                    asked.job, to_valid_utf8(asked.checkpoint), asked.job);
    if (!found->problem.empty())
        throw_error(Code::invalid, "ValidationException",
                    "checkpoint {} cannot be restored: {}; choose one that is valid", found->id,
                    to_valid_utf8(found->problem));
    return *found;
}

/// What restoring it would bring, path -> key: the chosen node's files, and of every other node of
/// the same epoch those that it had written by then.
std::map<std::string, std::string> files_of(const std::vector<StoredCheckpoint>& all,
                                            const StoredCheckpoint& chosen) {
    std::map<std::string, std::string> inherited, own;
    std::set<std::string> removed, nodes;
    const auto take = [&](const StoredCheckpoint& from) {
        if (!nodes.insert(from.name.node).second) return;
        for (const StoredFile& file : from.files)
            (file.own ? own : inherited).emplace(file.path, file.key);
        removed.insert(from.removed.begin(), from.removed.end());
    };
    take(chosen);
    for (const StoredCheckpoint& other : all)  // newest first
        if (other.problem.empty() && other.name.same_epoch(chosen.name) &&
            other.taken <= chosen.taken)
            take(other);
    for (const std::string& path : removed) inherited.erase(path);
    own.merge(inherited);
    return own;
}

void check_target(const objects::ObjectStore& store, const Shelf& from, const Shelf& to) {
    const auto inside = [](const Shelf& a, const Shelf& b) {
        return a.bucket == b.bucket &&
               (b.prefix.empty() || a.prefix == b.prefix || a.prefix.starts_with(b.prefix + "/"));
    };
    if (inside(from, to) || inside(to, from))
        throw_error(Code::invalid, "ValidationException",
                    "uri {} and the old job's checkpoints at {} lie one in the other; give a place "
                    "of its own",
                    to.uri, from.uri);
    if (!store.find_bucket(to.bucket))
        throw_error(Code::invalid, "ValidationException",
                    "uri {}: the bucket \"{}\" does not exist; create it first", to.uri, to.bucket);
    const std::string folder = to.prefix.empty() ? "" : to.prefix + "/";
    const objects::ListQuery first{.prefix = folder, .delimiter = {}, .after = {}, .limit = 1};
    if (!store.list(to.bucket, first).objects.empty())
        throw_error(Code::invalid, "ValidationException",
                    "there are objects at {} already, which the new job would restore too; give "
                    "another uri",
                    to.uri);
}

std::string request_of(const jobs::Job& old, const std::vector<jobs::Tag>& tags, const Wish& wish,
                       const Shelf& to) {
    Json document = parse_json(old.document);
    document["TrainingJobName"] = wish.name;
    document["CheckpointConfig"]["S3Uri"] = to.uri;
    document.erase("ProfilingStatus");  // the service's answer, not part of a request
    if (tags.empty()) return dump_json(document);
    Json list = Json::array();
    for (const jobs::Tag& tag : tags) list.push_back(Json{{"Key", tag.key}, {"Value", tag.value}});
    document["Tags"] = std::move(list);
    return dump_json(document);
}

/// Removes what was copied unless the job came to be.
class Copies {
public:
    Copies(objects::ObjectStore& store, std::string bucket)
        : store_(store), bucket_(std::move(bucket)) {}
    ~Copies() {
        if (keys_.empty()) return;
        try {
            store_.remove(bucket_, keys_);
        } catch (const std::exception& error) {
            log::warning("copies of a checkpoint were left behind",
                         {{"bucket", bucket_}, {"first", keys_.front()}, {"error", error.what()}});
        }
    }
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;
    void make(const Shelf& from, const std::string& key, const std::string& to) {
        store_.copy(from.bucket, from.key(key), bucket_, to, std::nullopt);
        keys_.push_back(to);
    }
    std::size_t keep() {
        const std::size_t count = keys_.size();
        keys_.clear();
        return count;
    }

private:
    objects::ObjectStore& store_;
    const std::string bucket_;
    std::vector<std::string> keys_;
};

}  // namespace

Json start_checkpoint(const Asked& asked) {
    const Wish wish = wish_of(asked);
    Services& services = asked.call.services;
    const jobs::Job old = require_job(asked);
    const Shelf from = shelf_of(old);
    const auto all = find_checkpoints(services.objects, from);
    const StoredCheckpoint& chosen = choose(all, asked);
    const Shelf to = shelf_at(wish.uri.empty() ? format("{}-{}", from.uri, wish.name) : wish.uri);
    if (services.jobs.find(asked.region, wish.name))
        throw_error(Code::conflict, "ResourceInUse",
                    "there is a training job \"{}\" already; give another name", wish.name);
    check_target(services.objects, from, to);

    Copies copies(services.objects, to.bucket);
    for (const auto& [path, key] : files_of(all, chosen))
        copies.make(from, key, to.key(visible_key(path)));
    Call create{.services = services,
                .request = asked.call.request,
                .verified = asked.call.verified,
                .caller = asked.call.caller,
                .operation = "CreateTrainingJob",
                .body = request_of(old, services.jobs.list_tags(old.spec.arn), wish, to)};
    create.caller.region = asked.region;
    Json out = parse_json(sagemaker::create_training_job(create));
    out["job"] = wish.name;
    out["checkpoint"] = chosen.id;
    out["uri"] = to.uri;
    out["files"] = copies.keep();
    return out;
}

}  // namespace ty::api::control
