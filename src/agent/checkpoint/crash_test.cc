// SPDX-License-Identifier: Apache-2.0
// Kills at random points. A child writes checkpoints and commits them; it is killed by time, or at
// a request of its own; the storage dies and comes back too. After every kill what is restored must
// be one whole checkpoint, byte for byte, and not older than the last one that was acknowledged.
// TRAINYARD_KILLS sets how many (100), TRAINYARD_SEED where the randomness starts.
#define DOCTEST_CONFIG_IMPLEMENT
#include "agent/checkpoint/checkpoint.h"
#include "agent/checkpoint/manifest.h"
#include "agent/checkpoint/testing/fake_storage.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <random>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view kChild = "--child";
constexpr seconds kSoon{30};

/// The bytes a file has in checkpoint `number`: say so, and are different in every place.
std::string content(int number, const std::string& name) {
    std::mt19937_64 random(static_cast<std::uint64_t>(number) * 1000003u +
                           std::hash<std::string>()(name));
    std::size_t size = random() % 3000;
    if (random() % 8 == 0) size = random() % 300'000;
    if (number % 25 == 7 && name == "last.pt") size = 9u << 20;  // in parts
    std::string text = format("{} {} {}\n", number, name, size);
    text.reserve(text.size() + size + 8);
    while (size > 0) {
        const std::uint64_t word = random();
        const std::size_t piece = std::min<std::size_t>(size, sizeof word);
        text.append(reinterpret_cast<const char*>(&word), piece);
        size -= piece;
    }
    return text;
}

/// The files of the folder when checkpoint `number` is whole.
std::vector<std::string> names(int number) {
    std::vector<std::string> all = {"last.pt", "inplace.bin", "fixed/config.json"};
    for (int i = std::max(1, number - 1); i <= number; ++i) {
        all.push_back(format("checkpoint-{}/model.bin", i));
        all.push_back(format("checkpoint-{}/optimizer.bin", i));
    }
    return all;
}
int number_of(int number, const std::string& name) {
    if (name == "fixed/config.json") return 0;
    if (!name.starts_with("checkpoint-")) return number;
    return static_cast<int>(parse_int(name.substr(11, name.find('/') - 11)).value_or(-1));
}

/// Empty when the folder is whole and nothing else; `number` is what it holds, 0 for nothing.
std::string why_not_whole(const sys::fs::path& folder, int& number) {
    std::map<std::string, std::string> files;
    for (const auto& entry : sys::fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file())
            files[entry.path().lexically_relative(folder).string()] = sys::read_file(entry.path());
    }
    number = 0;
    if (files.empty()) return "";
    number = static_cast<int>(
        parse_int(files["last.pt"].substr(0, files["last.pt"].find(' '))).value_or(-1));
    const std::vector<std::string> expected = names(number);
    for (const std::string& name : expected) {
        if (!files.contains(name)) return format("{} of {} is missing", name, number);
        if (files[name] != content(number_of(number, name), name))
            return format("{} of {} is not whole: \"{}\"", name, number,
                          files[name].substr(0, files[name].find('\n')));
    }
    if (files.size() != expected.size()) return format("{} has {} files", number, files.size());
    return "";
}

CheckpointOptions options_for(const sys::fs::path& folder, int attempt) {
    CheckpointOptions options;
    options.checkpoint.uri = "s3://bucket/run";
    options.checkpoint.keep = 2;
    options.folder = folder;
    options.job = "crash";
    options.node = "algo-1";
    options.attempt = attempt;
    options.quiet = 3ms;
    options.patience = 1h;
    return options;
}

// ---- the child

void write_checkpoint(const sys::fs::path& folder, int number) {
    // While this is open the folder is not quiet, however slow the machine.
    const sys::Fd busy = sys::open_write(folder / "set.tmp", 0);
    sys::write_all(busy.get(), "x");
    sys::fs::create_directories(folder / "fixed");
    sys::write_file(folder / "fixed/config.json", content(0, "fixed/config.json"));
    const sys::fs::path own = folder / format("checkpoint-{}", number);
    sys::fs::create_directories(own);
    for (const std::string name : {"model.bin", "optimizer.bin"})
        sys::write_file(own / name, content(number, format("checkpoint-{}/{}", number, name)));
    sys::write_file(folder / "last.pt.tmp", content(number, "last.pt"));
    sys::fs::rename(folder / "last.pt.tmp", folder / "last.pt");
    sys::write_file(folder / "inplace.bin", content(number, "inplace.bin"));
    sys::fs::remove_all(folder / format("checkpoint-{}", number - 2));
    sys::fs::remove(folder / "set.tmp");
}

int run_child(const sys::fs::path& folder, std::uint16_t port, int attempt, unsigned seed) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would end it
    SystemClock clock;
    CheckpointOptions options = options_for(folder, attempt);
    options.make_client = [&] {
        return std::make_unique<aws::S3Client>(http::Url{"http", "127.0.0.1", port, ""},
                                               aws::Credentials{"AKIDTEST", "verysecret", ""},
                                               "us-west-2", clock);
    };
    Sync<int> acknowledged(0);
    options.on_commit = [&](const plan::CheckpointCommitted& commit) {
        const int step = static_cast<int>(commit.step.value_or(0));
        sys::write_all(STDOUT_FILENO, format("{}\n", step));
        acknowledged.with([&](int& newest) { newest = step; });
        acknowledged.notify();
    };
    CheckpointSync sync(options, clock);
    sync.restore(Deadline::in(kSoon), {});
    int number = 0;
    if (const std::string why = why_not_whole(folder, number); !why.empty()) {
        sys::write_all(STDOUT_FILENO, "bad " + why + "\n");
        return 1;
    }
    sync.start();
    sys::write_all(STDOUT_FILENO, "up\n");
    std::minstd_rand random(seed);
    while (true) {
        write_checkpoint(folder, ++number);
        // Sometimes the next one comes while this one is on its way.
        const auto there = [&](int newest) { return newest >= number; };
        const milliseconds patience(random() % 3 == 0 ? random() % 8 : 5'000);
        acknowledged.wait(Deadline::in(patience), {}, there, there);
    }
}

// ---- the parent

struct Child {
    pid_t pid = 0;
    sys::Fd output;
};

Child spawn_child(const sys::fs::path& folder, std::uint16_t port, int attempt, unsigned seed) {
    sys::Pipe pipe = sys::make_pipe();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe.write.get(), STDOUT_FILENO);
    std::vector<std::string> words = {"/proc/self/exe",        std::string(kChild),
                                      folder.string(),         std::to_string(port),
                                      std::to_string(attempt), std::to_string(seed)};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    Child child;
    const int failed =
        ::posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw errno_error(failed, "start the child");
    child.output = std::move(pipe.read);
    return child;
}

int number_from(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : static_cast<int>(parse_int(text).value_or(otherwise));
}

class Rounds {
public:
    explicit Rounds(unsigned seed) : random_(seed) {}

    void run(int attempt) {
        const sys::TempDir dir("crash");
        const Child child = spawn_child(dir.path() / "checkpoints", storage_.port(), attempt,
                                        static_cast<unsigned>(random_()));
        order_death(child.pid);
        read_until_dead(child);
        storage_.set_faults({});
        int status = 0;
        REQUIRE(::waitpid(child.pid, &status, 0) == child.pid);
        check(attempt + 1);
    }

    int newest() const { return newest_; }
    FakeStorage& storage() { return storage_; }

private:
    /// Half of the children die at a request of theirs, before or after it takes effect, with some
    /// other trouble on the way; the rest by time.
    void order_death(pid_t pid) {
        by_time_ = random_() % 2 == 0;
        const std::size_t fatal = 1 + random_() % 40;
        const bool after = random_() % 2 == 0;
        const std::size_t trouble = 2 + random_() % 30;
        storage_.set_faults(
            [this, pid, fatal, after, trouble,
             count = std::make_shared<std::atomic<std::size_t>>(0)](const FakeStorage::Call&) {
                using enum FakeStorage::Fault;
                const std::size_t number = ++*count;
                if (!by_time_ && number == fatal) {
                    ::kill(pid, SIGKILL);
                    return after ? none : refuse;
                }
                if (number % trouble != 0) return none;
                return std::array{refuse, lose, tear, stall}[number / trouble % 4];
            });
    }

    void read_until_dead(const Child& child) {
        std::string text;
        bool up = false;
        Deadline death = Deadline::in(kSoon);
        const bool outage = random_() % 4 == 0;
        const milliseconds life(random_() % 120);
        std::array<std::byte, 4096> buffer;
        while (true) {
            const auto waited = sys::wait(child.output.get(), sys::Readiness::readable, death);
            if (waited == sys::Waited::timed_out) {
                ::kill(child.pid, SIGKILL);
                death = Deadline::in(kSoon);
                continue;
            }
            const std::size_t got = sys::read_some(child.output.get(), buffer);
            if (got == 0) break;
            text.append(reinterpret_cast<const char*>(buffer.data()), got);
            if (up || text.find("up\n") == std::string::npos) continue;
            up = true;
            if (outage) {
                storage_.kill();
                sys::pause(Deadline::in(milliseconds(random_() % 20)), {});
                storage_.start();
            }
            death = Deadline::in(by_time_ ? life : milliseconds(1'500));
        }
        for (const std::string& line : split(text, '\n')) {
            INFO(line);
            CHECK_FALSE(line.starts_with("bad"));
            newest_ = std::max(newest_, static_cast<int>(parse_int(line).value_or(0)));
        }
    }

    void check(int attempt) {
        const sys::TempDir dir("crash");
        SystemClock clock;
        CheckpointOptions options = options_for(dir.path() / "checkpoints", attempt);
        options.make_client = storage_.make_client(clock);
        CheckpointSync sync(options, clock);
        const auto restored = sync.restore(Deadline::in(kSoon), {});
        int number = 0;
        const std::string why = why_not_whole(dir.path() / "checkpoints", number);
        INFO(restored.id);
        CHECK(why == "");
        CHECK(restored.skipped == 0);
        CHECK(number >= newest_);
        newest_ = std::max(newest_, number);
    }

    FakeStorage storage_;
    std::minstd_rand random_;
    bool by_time_ = false;
    int newest_ = 0;
};

}  // namespace

TEST_CASE(
    "after any kill, of us or of the storage, a whole checkpoint is restored and none is lost") {
    const int kills = number_from("TRAINYARD_KILLS", 100);
    Rounds rounds(static_cast<unsigned>(number_from("TRAINYARD_SEED", 1)));
    int attempt = 1;
    for (; attempt <= kills; ++attempt) {
        CAPTURE(attempt);
        rounds.run(attempt);
    }
    CHECK(rounds.newest() > kills / 4);
    // No debris: one more whole commit leaves what two manifests need.
    const sys::TempDir dir("crash");
    SystemClock clock;
    CheckpointOptions options = options_for(dir.path() / "checkpoints", attempt);
    options.make_client = rounds.storage().make_client(clock);
    CheckpointSync sync(options, clock);
    sync.restore(Deadline::in(kSoon), {});
    int number = 0;
    REQUIRE(why_not_whole(dir.path() / "checkpoints", number) == "");
    for (int i = 1; i <= 3; ++i) {
        write_checkpoint(dir.path() / "checkpoints", number + i);
        sync.flush(Deadline::in(kSoon), {});
    }
    CHECK(rounds.storage().keys("bucket/run/.trainyard/manifests/").size() == 2);
    // fixed; last and inplace twice; the folders of three checkpoints, two files each.
    CHECK(rounds.storage().keys("bucket/run/.trainyard/data/").size() == 11);
    MESSAGE(kills, " kills, ", rounds.newest(), " checkpoints");
}

TEST_CASE("a full disk during a restore is said and leaves no half files") {
    const sys::TempDir dir("full");
    if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
        MESSAGE("skipped: mounting needs root");
        return;
    }
    FakeStorage storage;
    SystemClock clock;
    {
        const sys::TempDir source("full");
        CheckpointOptions options = options_for(source.path() / "checkpoints", 1);
        options.make_client = storage.make_client(clock);
        CheckpointSync sync(options, clock);
        sync.restore(Deadline::in(kSoon), {});
        sys::write_file(source.path() / "checkpoints/small", "1");
        sys::write_file(source.path() / "checkpoints/big", std::string(3u << 20, 'x'));
        sync.flush(Deadline::in(kSoon), {});
    }
    CheckpointOptions options = options_for(dir.path() / "checkpoints", 2);
    options.make_client = storage.make_client(clock);
    {
        CheckpointSync sync(options, clock);
        try {
            sync.restore(Deadline::in(kSoon), {});
            FAIL("3 MiB fit into 1 MiB");
        } catch (const Error& error) {
            CHECK(error.code() == Code::exhausted);
        }
    }
    std::size_t files = 0;
    for (const auto& entry : sys::fs::recursive_directory_iterator(dir.path()))
        files += entry.is_regular_file() ? 1 : 0;
    CHECK(files == 0);
    CHECK(::umount(dir.path().c_str()) == 0);
}

int main(int argc, char** argv) {
    log::set_level(log::Level::error);
    if (argc == 6 && argv[1] == kChild)
        return run_child(argv[2], static_cast<std::uint16_t>(std::atoi(argv[3])),
                         std::atoi(argv[4]), static_cast<unsigned>(std::atoi(argv[5])));
    log::set_sink([](std::string_view) {});  // a server that is killed has much to say
    doctest::Context context(argc, argv);
    return context.run();
}
