// SPDX-License-Identifier: Apache-2.0
// The padding of the original's demo data: what a plan by padded tokens makes of it.
#include "common/data/plan.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

using namespace alg;

namespace {

std::vector<std::int32_t> lengths_in(const std::string& file) {
    std::vector<std::int32_t> lengths;
    const gzFile in = gzopen(file.c_str(), "rb");
    std::string line(1 << 20, '\0');
    while (gzgets(in, line.data(), static_cast<int>(line.size())) != nullptr) {
        // numbers of the first field
        std::int32_t count = 1;
        for (const char* at = line.c_str(); *at != ';' && *at != '\0'; ++at) count += *at == ' ';
        if (count <= 512) lengths.push_back(count);
    }
    gzclose(in);
    return lengths;
}

}  // namespace

TEST_CASE("sorting pools of the demo data leaves a third of its padding") {
    const char* named = std::getenv("TRAINYARD_DATA");
    const std::string file = (std::filesystem::path(named != nullptr ? named : "../shared/data") /
                              "ernie/demo_train_set.gz");
    if (!std::filesystem::exists(file)) {
        MESSAGE("skipped: no ", file);
        return;
    }
    const auto lengths = lengths_in(file);
    PlanOptions options{.shuffle = false, .fill = Fill::padded_tokens, .size = 8192};
    const EpochPlan original(lengths, options, 0);
    options.sort_pool = 1000;
    const EpochPlan pooled(lengths, options, 0);
    options.shuffle = true;
    const EpochPlan shuffled(lengths, options, 0);
    options.sort_pool = -1;
    const EpochPlan sorted(lengths, options, 0);
    for (const EpochPlan* plan : {&original, &pooled, &shuffled, &sorted})
        MESSAGE(plan->updates(), " batches, ", 100 * (1 - plan->fill_ratio()), " % padding");
    CHECK(original.updates() == 157);
    CHECK(original.fill_ratio() == doctest::Approx(1 - 0.254).epsilon(0.001));
    CHECK(pooled.updates() == 128);
    CHECK(pooled.fill_ratio() > 1 - 0.079);
    CHECK(shuffled.updates() <= 130);
    CHECK(shuffled.fill_ratio() > 1 - 0.079);
    CHECK(sorted.fill_ratio() > 0.98);
}
