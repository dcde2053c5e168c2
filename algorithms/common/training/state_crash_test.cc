// SPDX-License-Identifier: Apache-2.0
// Trainings that are killed at random moments.
#include "common/training/state_files.h"
#include "common/training/state_toy.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

using namespace alg;

namespace {

/// A child that trains `updates` more (saving after each as the disk allows), tells each update
/// that is on disk, and is killed after `lifetime`.
struct Outcome {
    bool finished = false;
    std::int64_t told = -1;  ///< newest update said to be on disk
};
Outcome train_and_kill(const fs::path& folder, bool counted, std::int64_t until,
                       std::chrono::microseconds lifetime) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        {
            toy::Training training({.folder = folder, .every_updates = 1, .keep = 2}, counted);
            training.resume();
            std::int64_t told = -1;
            while (training.position.update < until) {
                training.update();
                const std::int64_t newest = training.keeper.report().newest;
                if (newest > told && ::write(ends[1], &newest, sizeof newest) == sizeof newest)
                    told = newest;
            }
            training.keeper.save_now(training.position);
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    // What it says is read meanwhile, so that it never waits for us.
    Outcome outcome;
    const auto deadline = std::chrono::steady_clock::now() + lifetime;
    bool open = true, killed = false;
    while (open) {
        const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 && !killed) {
            ::kill(child, SIGKILL);
            killed = true;
        }
        const timespec wait{0, killed ? 100'000'000 : std::min<long>(left.count(), 900'000'000)};
        pollfd event{ends[0], POLLIN, 0};
        if (::ppoll(&event, 1, &wait, nullptr) <= 0) continue;
        std::int64_t told = 0;
        open = ::read(ends[0], &told, sizeof told) == sizeof told;
        if (open) outcome.told = told;
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    outcome.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status)) CHECK(WTERMSIG(status) == SIGKILL);
    return outcome;
}

}  // namespace

TEST_CASE("a writer killed at any moment leaves a whole state, never older than one it told of") {
    const toy::Folder folder;
    Random random(1);
    std::int64_t before = 0;
    int in_the_middle = 0, told = 0;
    for (int kill = 0; kill < 200; ++kill) {
        const auto lifetime = std::chrono::microseconds(random.below(25'000));
        const Outcome outcome =
            train_and_kill(folder.path(), true, std::int64_t{1} << 40, lifetime);
        for (const std::string& name : folder.names()) in_the_middle += name.starts_with('.');
        toy::Training training({.folder = folder.path(), .keep = 2});
        const bool resumed = training.resume();
        CHECK(training.is_of(training.position.update));
        CHECK(training.position.update >= std::max(before, outcome.told));
        CHECK((resumed || before == 0));
        before = training.position.update;
        told += outcome.told > 0;
        CHECK(folder.names().size() <= 20);  // each kill between rename and removal leaves one more
    }
    MESSAGE("200 kills, ", in_the_middle, " within a write, ", told, " after a save; at update ",
            before);
    CHECK(in_the_middle > 10);
    CHECK(told > 10);
}

TEST_CASE("a training killed again and again ends with the bytes of an undisturbed one") {
    constexpr std::int64_t kUntil = 3'000;
    const toy::Folder undisturbed, disturbed;
    REQUIRE(train_and_kill(undisturbed.path(), false, kUntil, std::chrono::seconds(100)).finished);
    Random random(2);
    int kills = 0;
    while (!train_and_kill(disturbed.path(), false, kUntil,
                           std::chrono::microseconds(5'000 + random.below(100'000)))
                .finished)
        REQUIRE(++kills < 500);
    CHECK(kills > 0);
    CHECK(toy::bytes_of(state_file(undisturbed.path(), kUntil)) ==
          toy::bytes_of(state_file(disturbed.path(), kUntil)));
    MESSAGE("killed ", kills, " times");
}
