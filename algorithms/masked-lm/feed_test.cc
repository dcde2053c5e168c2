// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/feed.h"

#include "common/base/error.h"
#include "masked-lm/test_files.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace alg;
using alg::test::Folder;
using alg::test::sample_line;

namespace {

std::vector<ListedFile> corpus(const Folder& folder, int files, int lines, int follows = -1) {
    std::string list;
    for (int f = 0; f < files; ++f) {
        std::string text;
        for (int i = 0; i < lines; ++i)
            text += sample_line(10 + 100 * f + i, 2 + (i * 7 + f) % 9, 3,
                                follows < 0 ? i % 2 : follows);
        folder.gz("part" + std::to_string(f) + ".gz", text);
        list += "part" + std::to_string(f) + ".gz\t0.5\n";
    }
    return read_filelist(folder.text("list", list), folder.path());
}

FeedOptions options(int world, int rank, int accumulate, std::uintmax_t round_bytes = 1) {
    return {.plan = {.seed = 3,
                     .sort_pool = 20,
                     .fill = Fill::padded_tokens,
                     .size = 60,
                     .world = world,
                     .accumulate = accumulate},
            .rank = rank,
            .epochs = 2,
            .round_bytes = round_bytes};
}

std::vector<FeedStep> all(Feed& feed) {
    std::vector<FeedStep> steps;
    while (auto step = feed.next()) steps.push_back(std::move(*step));
    return steps;
}

/// The unmasked tokens of each sample of a batch.
std::vector<std::vector<std::int64_t>> unmasked(Batch batch) {
    for (std::size_t i = 0; i < batch.selected.size(); ++i)
        batch.tokens[static_cast<std::size_t>(batch.selected[i])] = batch.labels[i];
    std::vector<std::vector<std::int64_t>> samples;
    auto at = batch.tokens.begin();
    for (const std::int32_t length : batch.lengths) {
        samples.emplace_back(at, at + length);
        at += length;
    }
    return samples;
}

bool same(const Batch& a, const Batch& b) {
    return a.tokens == b.tokens && a.selected == b.selected && a.lengths == b.lengths &&
           a.follows == b.follows && a.number == b.number;
}

}  // namespace

TEST_CASE("an epoch has every sample once") {
    const Folder folder;
    Feed feed(corpus(folder, 3, 40), options(1, 0, 1), {});
    std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, int> seen;
    for (const FeedStep& step : all(feed))
        for (const auto& sample : unmasked(step.micros[0])) ++seen[{step.epoch, sample}];
    CHECK(seen.size() == 2 * 3 * 40);
    for (const auto& [sample, times] : seen) CHECK(times == 1);
}

TEST_CASE("a feed goes on exactly where another was left") {
    const Folder folder;
    const auto files = corpus(folder, 3, 40);
    Feed whole(files, options(1, 0, 2), {});
    const auto steps = all(whole);
    REQUIRE(steps.size() > 20);
    for (const std::size_t at :
         {std::size_t{0}, steps.size() / 3, steps.size() / 2, steps.size() - 2}) {
        Feed rest(files, options(1, 0, 2), steps[at].next);
        const auto others = all(rest);
        REQUIRE(others.size() == steps.size() - at - 1);
        for (std::size_t i = 0; i < others.size(); ++i) {
            CHECK(others[i].next.update_in_epoch == steps[at + 1 + i].next.update_in_epoch);
            for (std::size_t m = 0; m < 2; ++m)
                CHECK(same(others[i].micros[m], steps[at + 1 + i].micros[m]));
        }
    }
}

TEST_CASE("two ranks that share one file see what one rank with two micro-batches sees") {
    const Folder folder;
    const auto files = corpus(folder, 1, 90);
    Feed alone(files, options(1, 0, 2), {}), first(files, options(2, 0, 1), {}),
        second(files, options(2, 1, 1), {});
    int steps = 0;
    while (const auto step = alone.next()) {
        const auto one = first.next(), two = second.next();
        REQUIRE(one);
        REQUIRE(two);
        CHECK(same(step->micros[0], one->micros[0]));
        CHECK(same(step->micros[1], two->micros[0]));
        ++steps;
    }
    CHECK(steps > 5);
    CHECK_FALSE(first.next());
}

TEST_CASE("with enough files each rank reads its own, and all take the same number of updates") {
    const Folder folder;
    const auto files = corpus(folder, 5, 30);
    const auto lengths_of = [&](int rank, std::int64_t epoch) {
        // What the group would gather: here every round is the two files of one turn.
        std::vector<std::vector<std::int32_t>> result;
        const auto rounds = rounds_of(files, {.seed = 3, .world = 2, .bytes = 1 << 30}, epoch);
        SkipLog skips(0);
        for (std::size_t i = 0; i < rounds[0].files.size(); ++i) {
            if (rounds[0].rank[i] != rank) continue;
            const Shard shard =
                read_shard(files[static_cast<std::size_t>(rounds[0].files[i])].path, {}, skips);
            std::vector<std::int32_t> lengths;
            for (std::int64_t s = 0; s < shard.size(); ++s) lengths.push_back(shard.length(s));
            if (result.empty()) result.emplace_back();
            result[0].insert(result[0].end(), lengths.begin(), lengths.end());
        }
        return result[0];
    };
    std::set<std::vector<std::int64_t>> seen;
    std::size_t steps[2] = {0, 0};
    for (int rank = 0; rank < 2; ++rank) {
        std::int64_t epoch = 0;
        FeedOptions mine = options(2, rank, 1, 1 << 30);
        mine.epochs = 1;
        Feed feed(files, mine, {}, [&](const std::vector<std::int32_t>& own) {
            std::vector<std::vector<std::int32_t>> lengths = {lengths_of(0, epoch),
                                                              lengths_of(1, epoch)};
            CHECK(lengths[static_cast<std::size_t>(rank)] == own);
            ++epoch;
            return lengths;
        });
        for (const FeedStep& step : all(feed)) {
            ++steps[rank];
            for (const auto& sample : unmasked(step.micros[0])) CHECK(seen.insert(sample).second);
        }
    }
    CHECK(steps[0] == steps[1]);
    CHECK(seen.size() == 150);
}

TEST_CASE("false pairs have the first sentence of one sample and the second of another") {
    const Folder folder;
    FeedOptions with = options(1, 0, 1);
    with.false_pairs = true;
    with.epochs = 1;
    Feed feed(corpus(folder, 1, 50, 1), with, {});
    int follows = 0, false_pairs = 0;
    for (const FeedStep& step : all(feed)) {
        const Batch& batch = step.micros[0];
        const auto samples = unmasked(batch);
        std::size_t at = 0;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            const auto& tokens = samples[i];
            ++(batch.follows[i] == 1 ? follows : false_pairs);
            CHECK(tokens.front() == 1);
            CHECK(tokens.back() == 2);
            std::int64_t type = 0;
            for (std::size_t t = 0; t < tokens.size(); ++t) {
                CHECK(batch.positions[at + t] == static_cast<std::int64_t>(t));
                CHECK(batch.types[at + t] == type);
                if (tokens[t] == 2) type = 1;
            }
            // Tokens of a sample count up; across a false pair's [SEP] they do not.
            const std::size_t sep = static_cast<std::size_t>(
                std::find(tokens.begin(), tokens.end(), 2) - tokens.begin());
            CHECK((tokens[sep + 1] == tokens[sep - 1] + 2) == (batch.follows[i] == 1));
            at += tokens.size();
        }
    }
    CHECK(follows == 50);
    CHECK(false_pairs == 50);
}

TEST_CASE("false pairs are refused where a sample is none to begin with") {
    const Folder folder;
    FeedOptions with = options(1, 0, 1);
    with.false_pairs = true;
    Feed feed(corpus(folder, 1, 5), with, {});
    CHECK_THROWS_WITH_AS(feed.next(),
                         "part0.gz:1: generate_neg_sample needs files of true pairs only, and this "
                         "one's next_sentence_label is 0; set generate_neg_sample to false",
                         Failure);
}

TEST_CASE("a file that cannot be used ends the feed with its name") {
    const Folder folder;
    auto files = corpus(folder, 1, 5);
    folder.gz("part0.gz", "nothing\n");
    Feed feed(files, options(1, 0, 1), {});
    CHECK_THROWS_AS(feed.next(), Failure);
}

TEST_CASE(
    "a file is masked by word as often as its list says, and the same way when it is met again") {
    ListedFile file{.mask_word_prob = 0.3};
    int words = 0;
    for (int epoch = 0; epoch < 2000; ++epoch)
        words += mask_by_of(file, 1, 9, epoch) == MaskBy::word;
    CHECK(words > 520);
    CHECK(words < 680);
    file.mask_word_prob = 1.1;
    for (int epoch = 0; epoch < 100; ++epoch) CHECK(mask_by_of(file, 1, 9, epoch) == MaskBy::word);
}
