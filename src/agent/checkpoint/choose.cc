// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/choose.h"

#include <algorithm>
#include <set>

namespace ty::agent {

namespace {

/// The manifests of one node in one epoch, newest first; `at` is the candidate.
struct Line {
    std::vector<const Manifest*> manifests;
    std::size_t at = 0;
    const Manifest* current() const { return at < manifests.size() ? manifests[at] : nullptr; }
};
using Lines = std::map<std::string, Line>;
using Files = std::map<std::string, ManifestEntry>;

std::vector<const Manifest*> candidates(const Lines& lines) {
    std::vector<const Manifest*> all;
    for (const auto& [node, line] : lines) {
        if (const Manifest* current = line.current()) all.push_back(current);
    }
    return all;
}

/// A file that is another one's folder cannot be made; two nodes may have disagreed.
void drop_below_files(Files& files) {
    for (auto entry = files.begin(); entry != files.end();) {
        const std::string& path = entry->first;
        bool below = false;
        for (std::size_t slash = path.find('/'); slash != path.npos && !below;
             slash = path.find('/', slash + 1))
            below = files.contains(path.substr(0, slash));
        entry = below ? files.erase(entry) : std::next(entry);
    }
}

Files join(const std::vector<const Manifest*>& manifests) {
    Files files;
    std::set<std::string_view> removed;
    for (const Manifest* manifest : manifests)
        removed.insert(manifest->removed.begin(), manifest->removed.end());
    for (const Manifest* manifest : manifests) {
        for (const ManifestEntry& entry : manifest->entries) {
            if (!manifest->owns(entry)) continue;
            // Two nodes that wrote one path: the later file is seen, as with one folder.
            const auto [place, fresh] = files.try_emplace(entry.path, entry);
            if (!fresh && std::tie(place->second.modified, place->second.data) <
                              std::tie(entry.modified, entry.data))
                place->second = entry;
        }
    }
    for (const Manifest* manifest : manifests) {
        for (const ManifestEntry& entry : manifest->entries) {
            if (manifest->owns(entry) || removed.contains(entry.path)) continue;
            const auto [place, fresh] = files.try_emplace(entry.path, entry);
            // Inherited twice, of different age: somebody started from an older state.
            if (!fresh && place->second.data.epoch < manifest->id.epoch &&
                place->second.data < entry.data)
                place->second = entry;
        }
    }
    drop_below_files(files);
    return files;
}

/// Every manifest that needs the entry steps back to its predecessor.
void blame(Lines& lines, const ManifestEntry& missing, int& skipped) {
    for (auto& [node, line] : lines) {
        const Manifest* manifest = line.current();
        if (manifest == nullptr) continue;
        const auto found =
            std::ranges::lower_bound(manifest->entries, missing.path, {}, &ManifestEntry::path);
        if (found == manifest->entries.end() || found->path != missing.path ||
            found->data != missing.data)
            continue;
        ++line.at;
        ++skipped;
    }
}

std::optional<Chosen> choose_in_epoch(Lines lines, const ChooseFrom& from, int& skipped) {
    while (true) {
        const std::vector<const Manifest*> manifests = candidates(lines);
        if (manifests.empty()) return std::nullopt;
        if (from.resume && std::ranges::none_of(manifests, [&](const Manifest* manifest) {
                return manifest->id == *from.resume;
            }))
            return std::nullopt;
        Files files = join(manifests);
        const auto missing =
            std::ranges::find_if(files, [&](const auto& file) { return !from.there(file.second); });
        if (missing == files.end()) {
            Chosen chosen;
            for (const Manifest* manifest : manifests)
                chosen.id = std::max(chosen.id, manifest->id);
            if (from.resume) chosen.id = *from.resume;
            chosen.files = std::move(files);
            chosen.skipped = skipped;
            return chosen;
        }
        blame(lines, missing->second, skipped);
    }
}

Lines load_epoch(const std::vector<CheckpointId>& ids, const ChooseFrom& from, int& skipped) {
    const Manifest* named = from.resume ? from.load(*from.resume) : nullptr;
    Lines lines;
    for (const CheckpointId& id : ids) {  // newest first
        if (from.resume && (named == nullptr || (id.node == named->id.node && id != named->id)))
            continue;
        const Manifest* manifest = from.load(id);
        if (manifest == nullptr) {
            if (!from.resume) ++skipped;
        } else if (named == nullptr || manifest->taken <= named->taken) {
            lines[id.node].manifests.push_back(manifest);
        }
    }
    return lines;
}

using Epochs = std::map<Epoch, std::vector<CheckpointId>, std::greater<>>;
Epochs by_epoch(const std::vector<CheckpointId>& ids) {
    Epochs epochs;
    for (const CheckpointId& id : ids) epochs[id.epoch].push_back(id);
    for (auto& [epoch, all] : epochs) std::ranges::sort(all, std::greater<>());
    return epochs;
}

}  // namespace

std::optional<Chosen> choose_checkpoint(const ChooseFrom& from, int& skipped) {
    skipped = 0;
    for (const auto& [epoch, ids] : by_epoch(from.ids)) {
        if (from.before && !(epoch < *from.before)) continue;
        if (from.resume && from.resume->epoch != epoch) continue;
        if (auto chosen = choose_in_epoch(load_epoch(ids, from, skipped), from, skipped))
            return chosen;
    }
    return std::nullopt;
}

std::vector<CheckpointId> surplus_manifests(const std::vector<CheckpointId>& ids,
                                            const CheckpointId& self, int keep, bool older_too) {
    std::vector<CheckpointId> surplus;
    const auto most = static_cast<std::size_t>(std::max(1, keep));
    std::size_t held = 0;  // complete checkpoints in the epochs seen so far
    for (const auto& [epoch, all] : by_epoch(ids)) {
        if (epoch > self.epoch) return {};
        if (epoch == self.epoch) {
            for (const CheckpointId& id : all) {
                if (id.node == self.node && ++held > most) surplus.push_back(id);
            }
            continue;
        }
        if (held >= most) {
            if (older_too) surplus.insert(surplus.end(), all.begin(), all.end());
            continue;
        }
        std::map<std::string, std::size_t> of_node;
        std::size_t largest = 0;
        for (const CheckpointId& id : all) largest = std::max(largest, ++of_node[id.node]);
        held += largest;
    }
    return surplus;
}

}  // namespace ty::agent
