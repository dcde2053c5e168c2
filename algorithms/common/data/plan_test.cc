// SPDX-License-Identifier: Apache-2.0
// What must hold for every plan, tried on many random lengths and options.
#include "common/data/plan.h"

#include "common/base/error.h"
#include "common/base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

using namespace alg;

namespace {

using Lengths = std::vector<std::int32_t>;

Lengths lengths_of(std::size_t count, std::uint64_t key, std::uint64_t longest = 100) {
    Random random(key);
    Lengths lengths(count);
    for (std::int32_t& length : lengths)
        length = static_cast<std::int32_t>(1 + random.below(longest));
    return lengths;
}

/// All batches in order of their number.
std::vector<Indices> all_batches(const EpochPlan& plan, const PlanOptions& options) {
    std::vector<Indices> found;
    for (std::int64_t update = 0; update < plan.updates(); ++update)
        for (int micro = 0; micro < options.accumulate; ++micro)
            for (int rank = 0; rank < options.world; ++rank) {
                CHECK(plan.number(update, rank, micro) == static_cast<std::int64_t>(found.size()));
                const auto batch = plan.batch(update, rank, micro);
                found.emplace_back(batch.begin(), batch.end());
            }
    return found;
}

Indices joined(const std::vector<Indices>& batches) {
    Indices all;
    for (const Indices& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
    return all;
}

Indices numbers(std::size_t count) {
    Indices all(count);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

bool is_all_once(Indices samples, std::size_t count) {
    std::sort(samples.begin(), samples.end());
    return samples == numbers(count);
}

/// Options drawn from a key, so that every combination turns up.
PlanOptions options_of(std::uint64_t key) {
    Random random(key);
    PlanOptions options;
    options.seed = random();
    options.shuffle = random.below(3) > 0;
    options.shuffle_buffer = random.below(2) != 0 ? 0 : static_cast<std::int64_t>(random.below(60));
    options.sort_pool = static_cast<std::int64_t>(random.below(4)) * 25 - 25;
    if (options.sort_pool == -25) options.sort_pool = -1;
    if (random.below(3) == 0) options.buckets = {10, 20, 70};
    options.fill = std::array{Fill::samples, Fill::padded_tokens, Fill::tokens}[random.below(3)];
    options.size =
        1 + static_cast<std::int64_t>(random.below(options.fill == Fill::samples ? 40 : 400));
    options.world = 1 + static_cast<int>(random.below(5));
    options.accumulate = 1 + static_cast<int>(random.below(4));
    return options;
}

bool fits(const Indices& batch, const Lengths& lengths, const PlanOptions& options) {
    if (batch.size() <= 1) return true;
    std::int64_t longest = 0, total = 0;
    for (const std::int64_t sample : batch) {
        longest = std::max<std::int64_t>(longest, lengths[static_cast<std::size_t>(sample)]);
        total += lengths[static_cast<std::size_t>(sample)];
    }
    const auto count = static_cast<std::int64_t>(batch.size());
    switch (options.fill) {
        case Fill::samples:
            return count <= options.size;
        // the original tests before it appends: (count before + 1) * longest
        case Fill::padded_tokens:
            return count * longest <= options.size;
        case Fill::tokens:
            return total <= options.size;
    }
    return false;
}

}  // namespace

TEST_CASE("every sample is in exactly one batch of an epoch, whatever the options") {
    for (std::uint64_t trial = 0; trial < 300; ++trial) {
        const PlanOptions options = options_of(key_of(1, trial));
        const Lengths lengths = lengths_of(trial % 7 == 0 ? trial % 3 : trial * 2, trial);
        const EpochPlan plan(lengths, options, static_cast<std::int64_t>(trial % 4));
        const auto batches = all_batches(plan, options);
        CHECK(is_all_once(joined(batches), lengths.size()));
        CHECK(std::all_of(batches.begin(), batches.end(),
                          [&](const Indices& batch) { return fits(batch, lengths, options); }));
        // empty ones only at the end, fewer than an update has
        const auto first_empty = std::find(batches.begin(), batches.end(), Indices{});
        CHECK(std::all_of(first_empty, batches.end(), [](const Indices& b) { return b.empty(); }));
        CHECK(batches.end() - first_empty < options.world * options.accumulate);
        CHECK(plan.fill_ratio() > 0);
        CHECK(plan.fill_ratio() <= 1);
    }
}

TEST_CASE("with an owner each sample is on its owner's rank, and ranks that run out get nothing") {
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
        const PlanOptions options = options_of(key_of(2, trial));
        const Lengths lengths = lengths_of(trial, trial);
        Random random(key_of(3, trial));
        Lengths owner(lengths.size());
        // the last rank has few, or nothing
        for (std::int32_t& rank : owner)
            rank = static_cast<std::int32_t>(
                std::min(random.below(static_cast<std::uint64_t>(options.world)),
                         random.below(static_cast<std::uint64_t>(options.world))));
        const EpochPlan plan(lengths, owner, options, 0);
        const auto batches = all_batches(plan, options);
        CHECK(is_all_once(joined(batches), lengths.size()));
        std::vector<bool> ended(static_cast<std::size_t>(options.world));
        for (std::size_t i = 0; i < batches.size(); ++i) {
            const auto rank = i % static_cast<std::size_t>(options.world);
            CHECK(fits(batches[i], lengths, options));
            CHECK((batches[i].empty() || !ended[rank]));
            if (batches[i].empty()) ended[rank] = true;
            for (const std::int64_t sample : batches[i])
                CHECK(owner[static_cast<std::size_t>(sample)] == static_cast<std::int32_t>(rank));
        }
        if (!lengths.empty()) {
            // the last update has something for somebody
            const auto last = batches.end() - options.world * options.accumulate;
            CHECK(std::any_of(last, batches.end(), [](const Indices& b) { return !b.empty(); }));
        }
    }
}

TEST_CASE("a plan depends on seed and epoch alone") {
    const Lengths lengths = lengths_of(500, 5);
    for (const std::int64_t pool : {0, 50, -1}) {
        PlanOptions options{.sort_pool = pool, .size = 8};
        const auto first = all_batches(EpochPlan(lengths, options, 0), options);
        CHECK(first == all_batches(EpochPlan(lengths, options, 0), options));
        CHECK(first != all_batches(EpochPlan(lengths, options, 1), options));
        options.seed = 2;
        CHECK(first != all_batches(EpochPlan(lengths, options, 0), options));
        options.shuffle = false;
        CHECK(all_batches(EpochPlan(lengths, options, 0), options) ==
              all_batches(EpochPlan(lengths, options, 1), options));
    }
}

TEST_CASE("two ranks and two accumulated micro-batches see the same micro-batches of each update") {
    const Lengths lengths = lengths_of(333, 6);
    const PlanOptions two{.sort_pool = 100, .size = 8, .world = 2, .accumulate = 1};
    const PlanOptions accumulated{.sort_pool = 100, .size = 8, .world = 1, .accumulate = 2};
    const EpochPlan a(lengths, two, 3), b(lengths, accumulated, 3);
    CHECK(a.updates() == b.updates());
    CHECK(all_batches(a, two) == all_batches(b, accumulated));
}

TEST_CASE(
    "counted in padded tokens, one more sample is taken while (count + 1) * longest <= size") {
    const Lengths lengths = {10, 20, 10, 10, 30, 31};
    CHECK(batched(numbers(6), lengths, Fill::padded_tokens, 60, false) ==
          std::vector<Indices>{{0, 1, 2}, {3, 4}, {5}});
    CHECK(batched(numbers(6), lengths, Fill::tokens, 60, false) ==
          std::vector<Indices>{{0, 1, 2, 3}, {4}, {5}});
    CHECK(batched(numbers(6), lengths, Fill::samples, 4, false) ==
          std::vector<Indices>{{0, 1, 2, 3}, {4, 5}});
}

TEST_CASE("a sample longer than the size is a batch of its own") {
    const Lengths lengths = {3, 100, 3, 3};
    for (const Fill fill : {Fill::padded_tokens, Fill::tokens})
        CHECK(batched(numbers(4), lengths, fill, 10, false) ==
              std::vector<Indices>{{0}, {1}, {2, 3}});
}

TEST_CASE("drop_last leaves out what is not full") {
    const Lengths lengths(10, 5);
    CHECK(batched(numbers(10), lengths, Fill::samples, 4, true).size() == 2);
    CHECK(batched(numbers(8), lengths, Fill::samples, 4, true).size() == 2);
    CHECK(batched(numbers(10), lengths, Fill::tokens, 20, true).size() == 2);
    CHECK(bucketed(numbers(10), lengths, Lengths{4, 8}, Fill::samples, 4, true).size() == 2);
    CHECK(bucketed(numbers(10), lengths, Lengths{4, 8}, Fill::samples, 4).size() == 3);
}

TEST_CASE("pools are sorted, longest first, and equal ones keep their order") {
    const Lengths lengths = {1, 3, 2, 3, 9, 8, 1};
    CHECK(sorted_in_pools(numbers(7), lengths, 4) == Indices{1, 3, 2, 0, 4, 5, 6});
    CHECK(sorted_in_pools(numbers(7), lengths, -1) == Indices{4, 5, 1, 3, 2, 0, 6});
    CHECK(sorted_in_pools(numbers(7), lengths, 0) == numbers(7));
    CHECK(sorted_in_pools({}, {}, -1).empty());
}

TEST_CASE("a bucket holds lengths up to its bound, the last one also longer ones") {
    const Lengths lengths = {5, 10, 11, 20, 21, 99};
    const auto batches = bucketed(numbers(6), lengths, Lengths{10, 20}, Fill::samples, 10);
    CHECK(batches == std::vector<Indices>{{0, 1}, {2, 3, 4, 5}});
    // in the order in which they were full
    CHECK(bucketed(numbers(6), Lengths{20, 5, 20, 20, 5, 5}, Lengths{10, 20}, Fill::samples, 2) ==
          std::vector<Indices>{{0, 2}, {1, 4}, {5}, {3}});
}

TEST_CASE("a shuffle through a window hands out a sample at most a window early") {
    for (const std::int64_t buffer : {0, 1, 2, 10, 99, 100, 1000}) {
        const Indices order = shuffled(numbers(100), buffer, 7);
        CHECK(is_all_once(order, 100));
        if (buffer == 0) continue;
        for (std::size_t i = 0; i < order.size(); ++i)
            CHECK(order[i] < static_cast<std::int64_t>(i) + buffer);
    }
    CHECK(shuffled(numbers(100), 1, 7) == numbers(100));
    CHECK(shuffled(numbers(100), 1000, 7) == shuffled(numbers(100), 0, 7));
}

TEST_CASE("a perfect shuffle gives every place the same chance") {
    std::vector<int> seen(10 * 10);
    for (std::uint64_t key = 0; key < 10000; ++key) {
        const Indices order = shuffled(numbers(10), 0, key_of(key));
        for (std::size_t i = 0; i < 10; ++i) ++seen[static_cast<std::size_t>(order[i]) * 10 + i];
    }
    // 1000 expected, deviation 30: five of them
    CHECK(*std::min_element(seen.begin(), seen.end()) > 850);
    CHECK(*std::max_element(seen.begin(), seen.end()) < 1150);
}

TEST_CASE("sorted and bucketed batches come in random order") {
    const Lengths lengths = lengths_of(2000, 8);
    for (const bool buckets : {false, true}) {
        PlanOptions options{.sort_pool = -1, .size = 20};
        if (buckets) options.buckets = {25, 50, 75};
        const auto batches = all_batches(EpochPlan(lengths, options, 0), options);
        // correlation of a batch's place with its mean length
        double sum_x = 0, sum_y = 0, xx = 0, yy = 0, xy = 0;
        for (std::size_t i = 0; i < batches.size(); ++i) {
            double mean = 0;
            for (const std::int64_t s : batches[i]) mean += lengths[static_cast<std::size_t>(s)];
            mean /= static_cast<double>(batches[i].size());
            const auto x = static_cast<double>(i);
            sum_x += x, sum_y += mean, xx += x * x, yy += mean * mean, xy += x * mean;
        }
        const auto n = static_cast<double>(batches.size());
        const double correlation = (n * xy - sum_x * sum_y) /
                                   std::sqrt((n * xx - sum_x * sum_x) * (n * yy - sum_y * sum_y));
        CHECK(std::abs(correlation) < 0.3);
    }
}

TEST_CASE("no samples make no updates, and more ranks than batches make one with empty ones") {
    CHECK(EpochPlan({}, PlanOptions{}, 0).updates() == 0);
    CHECK(EpochPlan({}, {}, PlanOptions{.world = 3}, 0).updates() == 0);
    const Lengths lengths = {4, 4, 4};
    const EpochPlan plan(lengths, {.size = 2, .world = 8}, 0);
    CHECK(plan.updates() == 1);
    CHECK(plan.batch(0, 0, 0).size() == 2);
    CHECK(plan.batch(0, 1, 0).size() == 1);
    for (int rank = 2; rank < 8; ++rank) CHECK(plan.batch(0, rank, 0).empty());
    CHECK(plan.batch(1, 0, 0).empty());
}

TEST_CASE("options that make no sense are refused") {
    const Lengths lengths = {1, 2};
    CHECK_THROWS_AS(EpochPlan(lengths, {.size = 0}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.size = -4}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.world = 0}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.accumulate = 0}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.sort_pool = -2}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.shuffle_buffer = -1}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, {.buckets = {5, 5}}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(Lengths{-1}, PlanOptions{}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, Lengths{0}, PlanOptions{}, 0), Failure);
    CHECK_THROWS_AS(EpochPlan(lengths, Lengths{0, 1}, PlanOptions{}, 0), Failure);
}

TEST_CASE("a million samples are planned within a second, also under sanitizers within a few") {
    const Lengths lengths = lengths_of(1'000'000, 9, 512);
    const auto start = std::chrono::steady_clock::now();
    const EpochPlan plan(lengths, {.sort_pool = 1000, .fill = Fill::padded_tokens, .size = 8192},
                         0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    MESSAGE("1,000,000 lengths planned in ", took.count(), " s");
    CHECK(plan.updates() > 1'000'000 * 256 / 8192);
    CHECK(took.count() < 20);
}
