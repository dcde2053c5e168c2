// SPDX-License-Identifier: Apache-2.0
// Runs every story of this folder.
#include "base/error.h"
#include "tests/scenarios/script.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ty;

namespace {

std::vector<std::filesystem::path> stories() {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(TY_SCENARIOS))
        if (entry.path().extension() == ".yard") found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
}

/// Empty, or "line 7: expect …: it is: …".
std::string run(const std::filesystem::path& path) {
    scenario::Script script;
    std::size_t number = 0;
    for (const std::string& line : split(sys::read_file(path), '\n')) {
        ++number;
        try {
            script.line(line);
        } catch (const Error& error) {
            return fmt::format("line {}: {}: {}", number, line, error.message());
        }
    }
    return {};
}

}  // namespace

TEST_CASE("every story goes as told") {
    CHECK(stories().size() >= 10);
    for (const auto& path : stories()) {
        INFO(path.filename().string());
        CHECK(run(path) == "");
    }
}
