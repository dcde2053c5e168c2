// SPDX-License-Identifier: Apache-2.0
// Which checkpoint comes back, and which may go, decided from manifests alone.
#include "agent/checkpoint/choose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace ty;
using namespace ty::agent;

namespace {

CheckpointId id(int attempt, int sequence, const std::string& node = "algo-1", int generation = 0) {
    return {{attempt, generation}, sequence, node};
}

struct World {
    std::map<CheckpointId, Manifest> manifests;
    std::set<CheckpointId> torn;
    std::set<std::string> missing;  // "<data id>/<path>"
    int skipped = 0;

    Manifest& add(const CheckpointId& name, std::vector<std::pair<std::string, CheckpointId>> files,
                  std::vector<std::string> removed = {}) {
        Manifest m;
        m.id = name;
        m.taken = from_epoch_millis(name.sequence * 1000);
        for (auto& [path, data] : files)
            m.entries.push_back({path, 1, "", data, from_epoch_millis(data.sequence * 1000)});
        std::ranges::sort(m.entries, {}, &ManifestEntry::path);
        m.removed = std::move(removed);
        return manifests[name] = m;
    }
    ChooseFrom from() {
        ChooseFrom from;
        for (const auto& [name, manifest] : manifests) from.ids.push_back(name);
        from.load = [this](const CheckpointId& name) {
            return torn.contains(name) ? nullptr : &manifests.at(name);
        };
        from.there = [this](const ManifestEntry& entry) {
            return !missing.contains(entry.data.str() + '/' + entry.path);
        };
        return from;
    }
    std::string choose(ChooseFrom from) {
        const auto chosen = choose_checkpoint(from, skipped);
        if (!chosen) return "none";
        std::string text =
            chosen->id.str().substr(5, 1) + '.' + std::to_string(chosen->id.sequence) + ':';
        for (const auto& [path, entry] : chosen->files)
            text += ' ' + path + '=' + std::to_string(entry.data.epoch.attempt) + '.' +
                    std::to_string(entry.data.sequence);
        return text;
    }
    std::string choose() { return choose(from()); }
};

std::string text_of(const std::vector<CheckpointId>& ids) {
    std::string text;
    for (const CheckpointId& one : ids)
        text +=
            std::to_string(one.epoch.attempt) + '.' + std::to_string(one.sequence) + one.node + ' ';
    return text;
}

}  // namespace

TEST_CASE("the newest valid checkpoint wins, torn ones and those with missing bytes are skipped") {
    World w;
    w.add(id(1, 1), {{"a", id(1, 1)}});
    w.add(id(1, 2), {{"a", id(1, 2)}});
    w.add(id(2, 3), {{"a", id(2, 3)}, {"b", id(1, 2)}});
    CHECK(w.choose() == "2.3: a=2.3 b=1.2");
    w.missing.insert(id(2, 3).str() + "/a");
    CHECK(w.choose() == "1.2: a=1.2");
    CHECK(w.skipped == 1);
    w.torn.insert(id(1, 2));
    CHECK(w.choose() == "1.1: a=1.1");
    CHECK(w.skipped == 2);
    w.torn.insert(id(1, 1));
    CHECK(w.choose() == "none");
    CHECK(w.skipped == 3);
}

TEST_CASE("several nodes of an epoch add up: own files of each, inherited ones nobody removed") {
    World w;
    w.add(id(1, 1), {{"old", id(1, 1)}, {"x", id(1, 1)}});
    w.add(id(2, 1, "algo-1"), {{"old", id(1, 1)}, {"a", id(2, 1)}}, {"x"});
    w.add(id(2, 2, "algo-2"), {{"old", id(1, 1)}, {"x", id(1, 1)}, {"b", id(2, 2, "algo-2")}});
    CHECK(w.choose() == "2.2: a=2.1 b=2.2 old=1.1");
    // What nobody needs any more may be gone.
    w.missing.insert(id(1, 1).str() + "/x");
    CHECK(w.choose() == "2.2: a=2.1 b=2.2 old=1.1");
    // One node's torn newest: its older one, the other's newest.
    w.add(id(2, 5, "algo-1"), {{"old", id(1, 1)}, {"a", id(2, 5)}}, {"x"});
    CHECK(w.choose() == "2.5: a=2.5 b=2.2 old=1.1");
    w.torn.insert(id(2, 5, "algo-1"));
    CHECK(w.choose() == "2.2: a=2.1 b=2.2 old=1.1");
    CHECK(w.skipped == 1);
}

TEST_CASE("a file that two nodes wrote is the later one's") {
    World w;
    w.add(id(1, 9, "algo-1"), {{"last", id(1, 3, "algo-1")}});
    w.add(id(1, 5, "algo-2"), {{"last", id(1, 5, "algo-2")}});
    CHECK(w.choose() == "1.9: last=1.5");
}

TEST_CASE("a newer epoch wins over later writers of an older one") {
    World w;
    w.add(id(1, 900, "algo-1", 0), {{"a", id(1, 900)}});
    w.add(id(1, 1, "algo-1", 1), {{"a", {{1, 1}, 1, "algo-1"}}});
    CHECK(w.choose() == "1.1: a=1.1");
    ChooseFrom before = w.from();
    before.before = Epoch{1, 1};
    CHECK(w.choose(before) == "1.900: a=1.900");
}

TEST_CASE("one that is named comes back, or nothing does") {
    World w;
    for (int i = 1; i <= 3; ++i) w.add(id(1, i), {{"a", id(1, i)}});
    w.add(id(1, 2, "algo-2"), {{"b", id(1, 2, "algo-2")}});
    w.add(id(1, 3, "algo-2"), {{"b", id(1, 3, "algo-2")}});
    ChooseFrom named = w.from();
    named.resume = id(1, 2);
    CHECK(w.choose(named) == "1.2: a=1.2 b=1.2");
    w.missing.insert(id(1, 2).str() + "/a");
    CHECK(w.choose(named) == "none");
}

TEST_CASE("a file below another node's file does not come back") {
    World w;
    w.add(id(1, 1, "algo-1"), {{"d", id(1, 1)}});
    w.add(id(1, 1, "algo-2"), {{"d/x", id(1, 1, "algo-2")}});
    CHECK(w.choose() == "1.1: d=1.1");
}

TEST_CASE("retention keeps the newest of each node and older epochs only while they are needed") {
    std::vector<CheckpointId> ids = {id(1, 1), id(1, 2),           id(2, 1), id(2, 2),
                                     id(2, 3), id(2, 1, "algo-2"), id(2, 4)};
    CHECK(text_of(surplus_manifests(ids, id(2, 4), 3, true)) == "2.1algo-1 1.2algo-1 1.1algo-1 ");
    CHECK(text_of(surplus_manifests(ids, id(2, 4), 3, false)) == "2.1algo-1 ");
    CHECK(surplus_manifests(ids, id(2, 4), 6, true).empty());
    CHECK(surplus_manifests(ids, id(1, 2), 1, true).empty());  // we are the past
    // Short epochs add up.
    ids = {id(1, 1), id(2, 1), id(3, 1), id(4, 1)};
    CHECK(text_of(surplus_manifests(ids, id(4, 1), 2, true)) == "2.1algo-1 1.1algo-1 ");
}
