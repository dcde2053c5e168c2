// SPDX-License-Identifier: Apache-2.0
// deps: ty_telemetry
// Log lines appended in batches of about 1 MiB and read back by a follower while they arrive, on
// `streams` streams at once. Prints one line of JSON. Arguments: lines per stream, streams.
#include "telemetry/telemetry.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace ty;
using namespace ty::telemetry;

int main(int argc, char** argv) {
    const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3'000'000;
    const int streams = argc > 2 ? std::atoi(argv[2]) : 1;
    const sys::TempDir dir;
    SystemClock clock;
    LogStore store(dir.path(), clock);
    std::vector<LogLine> batch;
    std::size_t bytes = 0;
    for (std::uint64_t n = 0; bytes < (1u << 20); ++n) {
        batch.push_back(
            {.time = clock.now(),
             .text = fmt::format("2026-01-31 12:00:00 INFO trainer.py:217 epoch 3 step {} "
                                 "Train Loss: 0.{:04d} eta 0:12:34",
                                 n, n % 10000)});
        bytes += batch.back().text.size();
    }
    const Monotonic start = clock.monotonic();
    std::vector<std::thread> threads;
    std::vector<double> append_seconds(static_cast<std::size_t>(streams));
    for (int stream = 0; stream < streams; ++stream) {
        const StreamId id{std::string(kTrainingJobs), fmt::format("job/algo-{}", stream)};
        store.create_stream(id);
        threads.emplace_back([&, id, stream] {
            const Monotonic begin = clock.monotonic();
            for (std::uint64_t n = 0; n < count;) n = store.append(id, n, batch);
            const std::chrono::duration<double> took = clock.monotonic() - begin;
            append_seconds[static_cast<std::size_t>(stream)] = took.count();
        });
        threads.emplace_back([&, id] {
            for (std::uint64_t n = 0; n < count;) {
                const auto events = store.read(id, n, LogStore::Direction::forward, 10'000);
                n += events.size();
                if (events.empty()) store.wait_beyond(id, n, Deadline::in(seconds(10)), {});
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> took = clock.monotonic() - start;
    double slowest = 0;
    for (const double s : append_seconds) slowest = std::max(slowest, s);
    const double total = double(count) * streams;
    std::printf(
        "{\"bench\":\"log_rate\",\"lines\":%.0f,\"streams\":%d,\"append_lines_per_second\":%.0f,"
        "\"append_and_read_lines_per_second\":%.0f}\n",
        total, streams, total / slowest, total / took.count());
    return 0;
}
