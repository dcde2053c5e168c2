// SPDX-License-Identifier: Apache-2.0
// A user's metric definitions on a user's log lines: the fast path finds what the plain engine
// finds. First line of the input: the regex. The rest: the text.
#include "base/error.h"
#include "telemetry/telemetry.h"

#include <cstdlib>
#include <map>

using namespace ty::telemetry;

namespace {

std::map<std::size_t, double> by_line(const LineMatcher& matcher, const LogBlock& block) {
    std::map<std::size_t, double> found;
    for (std::size_t i = 0; i < block.lines.size(); ++i)
        matcher.match(block.line(i), [&](std::size_t, double value) { found[i] = value; });
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos || end > 500 || size > 4096) return 0;
    const std::string regex(input.substr(0, end));
    const std::string text = std::string(input.substr(end + 1)) + "\n";
    // An empty branch changes no match but keeps every fast path away.
    const std::vector<MetricDefinition> fast = {{"m", regex}};
    const std::vector<MetricDefinition> plain = {{"m", "(?:" + regex + "|[^\\x00-\\x{10FFFF}])"}};
    try {
        check_definition(fast[0]);
        check_definition(plain[0]);
    } catch (const ty::Error& error) {
        if (error.code() != ty::Code::invalid) std::abort();
        return 0;
    }
    LogBlock block;
    block.text = text;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t stop = text.find('\n', at);
        block.lines.push_back(
            {.time = {}, .offset = std::uint32_t(at), .length = std::uint32_t(stop - at)});
        at = stop + 1;
    }
    std::map<std::size_t, double> found;
    LineMatcher(fast).match_block(
        block, [&](std::size_t line, std::size_t, double value) { found[line] = value; });
    const LineMatcher slow(plain);
    if (found != by_line(slow, block)) std::abort();
    if (found != by_line(LineMatcher(fast), block)) std::abort();
    return 0;
}
