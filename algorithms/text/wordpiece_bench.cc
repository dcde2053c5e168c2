// SPDX-License-Identifier: Apache-2.0
// wordpiece_bench FILE VOCABULARY [SECONDS]: how fast one thread tokenises the lines of a file.
// Prints one JSON line: megabytes per second (10^6 bytes of text, best of its rounds), tokens.
#include "common/base/error.h"
#include "text/lines.h"
#include "text/wordpiece.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void measure(const char* file, const char* vocabulary, double seconds) {
    std::vector<std::string> lines;
    std::size_t bytes = 0;
    alg::LineReader reader(file);
    for (std::string line; reader.next(line); lines.push_back(line)) bytes += line.size();
    const Clock::time_point begun = Clock::now();
    const alg::WordPiece tokenizer(alg::Vocabulary::read(vocabulary));
    const double ready = seconds_since(begun);
    double best = 1e9;
    std::size_t tokens = 0;
    const Clock::time_point start = Clock::now();
    do {
        const Clock::time_point round = Clock::now();
        tokens = 0;
        for (const std::string& line : lines) {
            std::vector<std::int32_t> ids;  // as a caller does who keeps them
            tokenizer.encode(line, ids);
            tokens += ids.size();
        }
        best = std::min(best, seconds_since(round));
    } while (seconds_since(start) < seconds);
    const double speed = static_cast<double>(bytes) / 1e6 / best;
    std::printf("{\"mb_per_s\": %.2f, \"bytes\": %zu, \"tokens\": %zu, \"ready_s\": %.4f}\n", speed,
                bytes, tokens, ready);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fputs("usage: wordpiece_bench FILE VOCABULARY [SECONDS]\n", stderr);
        return 2;
    }
    try {
        measure(argv[1], argv[2], argc > 3 ? std::atof(argv[3]) : 2.0);
    } catch (const alg::Failure& failure) {
        std::fprintf(stderr, "wordpiece_bench: %s\n", failure.what());
        return 1;
    }
    return 0;
}
