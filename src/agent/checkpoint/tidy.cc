// SPDX-License-Identifier: Apache-2.0
// What a commit leaves to do: the names people see, and the checkpoints nobody needs any more.
// Every step can be repeated, and every step may be cut off by a kill: a manifest goes before the
// data it names, and data goes only when no manifest that stands refers to it.
#include "agent/checkpoint/choose.h"
#include "agent/checkpoint/writer.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>

namespace ty::agent {

namespace {

/// Other nodes of an attempt may still be fetching what it began with.
constexpr std::chrono::minutes kOthersRestore{10};

/// The id a name below ".trainyard/data/" belongs to.
std::optional<CheckpointId> id_of_data(std::string_view name) {
    return CheckpointId::parse(name.substr(0, name.find('/')));
}

}  // namespace

void CheckpointWriter::tidy(Deadline by, const std::stop_token& stop) {
    const auto client = place_.make_client()();
    show(*client, by, stop);
    while (!garbage_.empty()) {
        client->remove(place_.bucket(), place_.key(garbage_.back()), by, stop);
        garbage_.pop_back();
    }
    if (newest_) retain(*client, by, stop);
    tidy_ = true;
}

void CheckpointWriter::show(aws::S3Client& client, Deadline by, const std::stop_token& stop) {
    std::vector<KnownFiles::const_iterator> news;
    for (auto file = committed_.cbegin(); file != committed_.cend(); ++file) {
        const auto shown = visible_.find(file->first);
        if (shown != visible_.end() && shown->second == file->second.data) continue;
        // In company its writer does it.
        if (options_.alone || file->second.data.node == options_.node) news.push_back(file);
    }
    std::vector<char> done(news.size());  // a byte each: every thread writes its own
    const auto copied = capture([&] {
        share_work(place_, news.size(), stop,
                   [&](std::size_t turn, aws::S3Client& own, const std::stop_token& halt) {
                       const auto& [path, file] = *news[turn];
                       place_.copy(own, data_key(file.data, path), "", file.mark.size,
                                   visible_key(path), by, halt);
                       done[turn] = 1;
                   });
    });
    for (std::size_t i = 0; i < news.size(); ++i) {
        if (done[i] != 0) visible_.insert_or_assign(news[i]->first, news[i]->second.data);
    }
    if (!copied.ok()) throw copied.error();
    for (auto shown = visible_.begin(); shown != visible_.end();) {
        if (committed_.contains(shown->first)) {
            ++shown;
            continue;
        }
        client.remove(place_.bucket(), place_.key(visible_key(shown->first)), by, stop);
        shown = visible_.erase(shown);
    }
}

void CheckpointWriter::retain(aws::S3Client& client, Deadline by, const std::stop_token& stop) {
    const std::vector<CheckpointId> ids = place_.list_manifests(client, by, stop);
    const bool first = std::ranges::none_of(
        ids, [&](const CheckpointId& id) { return id.epoch == epoch_ && id.node < options_.node; });
    const bool older_too =
        options_.alone || (first && clock_.monotonic() - epoch_started_ >= kOthersRestore);
    const std::vector<CheckpointId> surplus =
        surplus_manifests(ids, *newest_, options_.checkpoint.keep, older_too);
    std::vector<CheckpointId> kept = ids;
    bool older_gone = false;
    for (const CheckpointId& id : surplus) {
        client.remove(place_.bucket(), place_.key(manifest_key(id)), by, stop);
        std::erase(kept, id);
        older_gone = older_gone || id.epoch != epoch_;
    }
    // Own data of this epoch: nobody else refers to it before the next epoch.
    for (auto old = written_.begin(); old != written_.end();) {
        if (std::ranges::find(kept, old->id) != kept.end()) {
            ++old;
            continue;
        }
        const std::set<std::string> data = std::move(old->data);
        // What it alone had inherited is nobody's now.
        if (old->inherited > written_.back().inherited) sweep_ = true;
        old = written_.erase(old);
        for (const std::string& name : data) {
            if (std::ranges::none_of(
                    written_, [&](const Written& other) { return other.data.contains(name); }))
                client.remove(place_.bucket(), place_.key(name), by, stop);
        }
    }
    if (older_too && (older_gone || sweep_)) {
        sweep(client, kept, by, stop);
        sweep_ = false;
    }
}

void CheckpointWriter::sweep(aws::S3Client& client, const std::vector<CheckpointId>& kept,
                             Deadline by, const std::stop_token& stop) {
    constexpr std::string_view kData = ".trainyard/data/";
    std::set<std::string> needed;
    for (const CheckpointId& id : kept) {
        auto manifest = capture([&] { return place_.read_manifest(client, id, by, stop); });
        if (!manifest.ok() && manifest.error().code() == Code::not_found) continue;
        // What cannot be read may be a newer release's: then nothing is swept.
        if (!manifest.ok() && manifest.error().code() == Code::corrupt) return;
        for (const ManifestEntry& entry : std::move(manifest).value().entries)
            needed.insert(data_key(entry.data, entry.path).substr(kData.size()));
    }
    for (const auto& [name, object] : place_.list_data(client, by, stop)) {
        const auto id = id_of_data(name);
        if (!id || needed.contains(name)) continue;
        const bool over = id->epoch < epoch_ ||
                          (id->epoch == epoch_ && id->node == options_.node && *id < *newest_);
        if (!over) continue;
        client.remove(place_.bucket(), place_.key(std::string(kData) + name), by, stop);
    }
}

}  // namespace ty::agent
