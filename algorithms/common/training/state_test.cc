// SPDX-License-Identifier: Apache-2.0
// Saving and resuming in one process; see state_crash_test.cc for processes that are killed.
#include "common/training/state.h"

#include "common/base/error.h"
#include "common/training/state_files.h"
#include "common/training/state_toy.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

using namespace alg;

namespace {

std::string name_of(std::int64_t update) {
    return state_file("", update).string();
}

/// A folder with states of these updates.
void fill(const toy::Folder& folder, std::int64_t updates) {
    toy::Training training({.folder = folder.path(), .keep = 100});
    for (std::int64_t i = 0; i < updates; ++i) {
        training.update();
        training.keeper.save_now(training.position);
    }
}

void put_bytes(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// Files of this process may have `bytes` at most, as on a disk that is full.
class FullDisk {
public:
    explicit FullDisk(rlim_t bytes) {
        ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

private:
    rlimit before_{};
};

}  // namespace

TEST_CASE("an empty or absent folder has nothing to resume") {
    const toy::Folder folder;
    CHECK_FALSE(toy::Training({.folder = folder.path()}).resume());
    CHECK_FALSE(toy::Training({.folder = folder.path() / "absent"}).resume());
}

TEST_CASE("what is saved while training goes on is the state of one update") {
    const toy::Folder folder;
    for (std::int64_t round = 0; round < 20; ++round) {
        std::int64_t newest = 0;
        {
            toy::Training training({.folder = folder.path(), .every_updates = 1, .keep = 2});
            training.resume();
            for (int i = 0; i < 50; ++i) training.update();
            newest = training.keeper.report().newest;
        }
        toy::Training resumed({.folder = folder.path()});
        REQUIRE(resumed.resume());
        CHECK(resumed.position.update >= newest);
        CHECK(resumed.is_of(resumed.position.update));
        CHECK(folder.names().size() <= 2);
    }
}

TEST_CASE("a save when asked for is on disk when it returns, once") {
    const toy::Folder folder;
    toy::Training training({.folder = folder.path()});
    for (int i = 0; i < 3; ++i) training.update();
    training.keeper.save_now(training.position);
    CHECK(folder.names() == std::vector<std::string>{name_of(3)});
    CHECK(training.keeper.report().written == 1);
    training.keeper.save_now(training.position);
    CHECK(training.keeper.report().written == 1);
    toy::Training resumed({.folder = folder.path()});
    REQUIRE(resumed.resume());
    CHECK(resumed.is_of(3));
    CHECK(resumed.position == training.position);
    CHECK(resumed.keeper.report().newest == 3);
}

TEST_CASE("saves come every n updates, counted through a resume") {
    const toy::Folder folder;
    {
        toy::Training training({.folder = folder.path(), .every_updates = 10, .keep = 100});
        for (int i = 0; i < 27; ++i) {
            training.update();
            if (training.position.update % 10 == 0) training.keeper.save_now(training.position);
        }
        CHECK(training.keeper.report().written == 2);
    }
    toy::Training training({.folder = folder.path(), .every_updates = 10, .keep = 100});
    REQUIRE(training.resume());
    for (int i = 0; i < 10; ++i) training.update();
    training.keeper.save_now(training.position);
    CHECK(folder.names() == std::vector<std::string>{name_of(10), name_of(20), name_of(30)});
}

TEST_CASE("saves come by time, and when SIGUSR1 or anybody asks") {
    watch_signals();
    const toy::Folder folder;
    {
        toy::Training training({.folder = folder.path(), .every_seconds = 1e-9, .keep = 100});
        // The first one waits until there is memory for the copy.
        while (training.keeper.report().written == 0) training.update();
    }
    CHECK(!folder.names().empty());
    for (const std::string& name : folder.names()) fs::remove(folder.path() / name);
    {
        toy::Training training({.folder = folder.path(), .every_seconds = 1e9, .keep = 100});
        for (int i = 0; i < 3; ++i) training.update();
        ::raise(SIGUSR1);
        training.update();
        training.keeper.save_now(training.position);  // waits for it and has nothing to do
        CHECK(training.keeper.report().written == 1);
        StateKeeper::request();
        training.update();
    }
    CHECK(folder.names() == std::vector<std::string>{name_of(4), name_of(5)});
}

TEST_CASE("the launcher's request is answered by a save on disk and the removal of the request") {
    const toy::Folder folder, other;
    const fs::path request = other.path() / "request.json";
    toy::Training training({.folder = folder.path(),
                            .request_file = request,
                            .leave_within = std::chrono::milliseconds(0)});
    training.update();
    CHECK(folder.names().empty());
    put_bytes(request, "{}");
    training.update();
    CHECK(folder.names() == std::vector<std::string>{name_of(2)});
    CHECK_FALSE(fs::exists(request));
}

TEST_CASE("ranks that do not write leave nothing") {
    const toy::Folder folder;
    toy::Training training({.folder = folder.path(), .every_updates = 1, .writer = false});
    for (int i = 0; i < 3; ++i) training.update();
    training.keeper.save_now(training.position);
    CHECK(folder.names().empty());
}

TEST_CASE("the newest n stay, and what is not ours") {
    const toy::Folder folder;
    put_bytes(folder.path() / "state-1.txt", "mine");
    put_bytes(folder.path() / "state-x.pt", "mine");
    put_bytes(folder.path() / "model.pt", "mine");
    toy::Training training({.folder = folder.path(), .keep = 2});
    for (int i = 0; i < 5; ++i) {
        training.update();
        training.keeper.save_now(training.position);
    }
    CHECK(folder.names() == std::vector<std::string>{"model.pt", name_of(4), name_of(5),
                                                     "state-1.txt", "state-x.pt"});
    CHECK_THROWS_AS(toy::Training({.folder = folder.path(), .keep = 0}), Failure);
}

TEST_CASE("a newest file that is torn is passed over, and goes when the next one is on disk") {
    const toy::Folder folder;
    fill(folder, 3);
    const fs::path newest = state_file(folder.path(), 3);
    const std::string whole = toy::bytes_of(newest);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{1000}, whole.size() / 2, whole.size() - 1}) {
        put_bytes(newest, whole.substr(0, size));
        toy::Training training({.folder = folder.path()});
        REQUIRE(training.resume());
        CHECK(training.is_of(2));
    }
    // the name is there, the content never arrived: what a lost power supply leaves
    put_bytes(newest, std::string(whole.size(), '\0'));
    toy::Training training({.folder = folder.path(), .keep = 2});
    REQUIRE(training.resume());
    CHECK(training.is_of(2));
    CHECK(fs::exists(newest));
    put_bytes(folder.path() / name_of(9), "torn");
    training.resume();
    training.update();
    training.keeper.save_now(training.position);  // of update 3, in its place
    CHECK(folder.names() == std::vector<std::string>{name_of(2), name_of(3)});
    toy::Training again({.folder = folder.path()});
    REQUIRE(again.resume());
    CHECK(again.is_of(3));
}

TEST_CASE("a flipped bit is found wherever it matters") {
    const toy::Folder folder;
    fill(folder, 2);
    const fs::path newest = state_file(folder.path(), 2);
    const std::string whole = toy::bytes_of(newest);
    Random random(3);
    int found = 0;
    for (int trial = 0; trial < 300; ++trial) {
        std::string bytes = whole;
        // half of them near the end, where the directory is
        const std::size_t from = trial % 2 == 0 ? 0 : whole.size() - 1500;
        const std::size_t at = from + random.below(whole.size() - from);
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        put_bytes(newest, bytes);
        toy::Training training({.folder = folder.path()});
        REQUIRE(training.resume());
        CHECK((training.is_of(1) || training.is_of(2)));  // never anything else
        found += training.is_of(1);
    }
    CHECK(found > 200);
}

TEST_CASE("a file of somebody else is passed over and stays") {
    const toy::Folder folder;
    fill(folder, 1);
    write_torch(folder.path() / name_of(7), Dictionary{{"weights", Dictionary{}}});
    toy::Training training({.folder = folder.path(), .keep = 1});
    REQUIRE(training.resume());
    CHECK(training.is_of(1));
    training.update();
    training.keeper.save_now(training.position);
    CHECK(folder.names() == std::vector<std::string>{name_of(2), name_of(7)});
}

TEST_CASE("a state of another shape is refused by tensor, shapes and remedy, and changes nothing") {
    const toy::Folder folder;
    fill(folder, 2);
    toy::Training training({.folder = folder.path()}, true, 20'000, 8);
    try {
        training.resume();
        FAIL("resumed");
    } catch (const Failure& problem) {
        const std::string text = problem.what();
        CAPTURE(text);
        const std::vector<std::string> parts = {
            name_of(2), "\"layer.bias\" is Float [7] in it and Float [8] here", "moment.layer.bias",
            "another checkpoints folder"};
        for (const std::string& part : parts) CHECK(text.find(part) != std::string::npos);
    }
    CHECK(training.is_of(0));
}

TEST_CASE("a state of another program is refused") {
    const toy::Folder folder;
    fill(folder, 2);
    toy::Training same({.folder = folder.path(), .must_match = {{"program", "toy"}}});
    CHECK(same.resume());
    toy::Training other({.folder = folder.path(), .must_match = {{"program", "masked-lm"}}});
    CHECK_THROWS_WITH(
        other.resume(),
        (state_file(folder.path(), 2).string() +
         " does not fit this training: its program is \"toy\", here it is \"masked-lm\"; name "
         "another checkpoints folder, or train with the settings it was made with")
            .c_str());
}

TEST_CASE("temporary files of killed writers are removed when resuming") {
    const toy::Folder folder;
    fill(folder, 1);
    put_bytes(folder.path() / ".state-000000002.pt.0123456789abcdef.tmp", "half");
    put_bytes(folder.path() / ".mine.tmp", "half");
    toy::Training reader({.folder = folder.path(), .writer = false});
    CHECK(reader.resume());
    CHECK(folder.names().size() == 3);
    toy::Training training({.folder = folder.path()});
    CHECK(training.resume());
    CHECK(folder.names() == std::vector<std::string>{".mine.tmp", name_of(1)});
}

TEST_CASE("a full disk is counted, leaves nothing half-written, and training goes on") {
    const toy::Folder folder;
    toy::Training training({.folder = folder.path(), .every_updates = 1, .keep = 2});
    training.update();
    training.keeper.save_now(training.position);
    {
        const FullDisk full(100'000);
        for (int i = 0; i < 20; ++i) training.update();
        CHECK_THROWS_AS(training.keeper.save_now(training.position), Failure);
        CHECK(training.keeper.report().failed > 0);
        CHECK(training.keeper.report().newest == 1);
        CHECK(folder.names() == std::vector<std::string>{name_of(1)});
    }
    training.update();
    training.keeper.save_now(training.position);
    CHECK(training.keeper.report().newest == 22);
    toy::Training resumed({.folder = folder.path()});
    REQUIRE(resumed.resume());
    CHECK(resumed.is_of(22));
}

TEST_CASE("tensors with gaps and of other types are saved as well") {
    const toy::Folder folder;
    struct Odd : Module {
        Odd() {
            parameter("whole", at::zeros({3, 5}, at::TensorOptions(at::kFloat)).t());
            parameter("half", at::zeros({3}, at::TensorOptions(at::kBFloat16)));
        }
    };
    struct None final : alg::Optimizer {
        void step(double, double) override {}
        std::vector<std::pair<std::string, at::Tensor>> state() const override { return {}; }
        std::int64_t steps() const override { return 5; }
        void set_steps(std::int64_t) override {}
    } none;
    Odd odd, again;
    {
        const c10::NoGradGuard no_grad;
        int number = 0;
        for (const Parameter& parameter : odd.parameters())
            for (std::int64_t i = 0; i < parameter.value.numel(); ++i)
                parameter.value.detach()
                    .view_as(parameter.value)
                    .as_strided({1}, {1}, i)
                    .fill_(++number);
    }
    StateKeeper({.folder = folder.path()}, odd.parameters(), none).save_now(Position{.update = 4});
    StateKeeper keeper({.folder = folder.path()}, again.parameters(), none);
    CHECK(keeper.resume()->update == 4);
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(again.parameters()[i].value.equal(odd.parameters()[i].value));
}

TEST_CASE("a position keeps everything, in files and between ranks") {
    const Position position{.update = 1LL << 40,
                            .epoch = 2,
                            .update_in_epoch = 3,
                            .samples = 4,
                            .world = 5,
                            .accumulate = 6,
                            .skipped = 7,
                            .seed = ~std::uint64_t{8},
                            .loss_scale = {102400, 1.5, -0.0},
                            .numbers = {{"best", 0.1}, {"", 1e300}},
                            .texts = {{"program", "masked-lm"}, {"ü", std::string("\0\n", 2)}}};
    CHECK(unpack(pack(position)) == position);
    CHECK(decode(encode(State{.position = position})).position == position);
    CHECK(unpack(pack(Position{})) == Position{});
    CHECK_THROWS_AS(unpack(pack(position).substr(0, 100)), Failure);
}

TEST_CASE("Python's torch.load reads a state and executes nothing") {
    if (!fs::exists(".venv/hf/bin/python")) {
        MESSAGE("skipped: no .venv/hf/bin/python");
        return;
    }
    const toy::Folder folder;
    fill(folder, 3);
    const std::string script =
        "import sys, torch\n"
        "s = torch.load(sys.argv[1], weights_only=True)\n"
        "assert list(s) == ['model', 'optimizer', 'position'], list(s)\n"
        "assert s['model']['layer.weight'].shape == (2000, 3)\n"
        "assert (s['model']['layer.weight'] == 3).all() and (s['optimizer']['moment.layer.bias'] "
        "== 6).all()\n"
        "assert s['optimizer']['steps'] == 3 and s['position']['update'] == 3\n"
        "assert s['position']['texts'] == {'program': 'toy'} and s['position']['loss_scale'] == "
        "[3.0, 1.0]\n";
    put_bytes(folder.path() / "check.py", script);
    const std::string command = ".venv/hf/bin/python " + (folder.path() / "check.py").string() +
                                " " + state_file(folder.path(), 3).string();
    CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("SIGTERM asks to stop, however often") {
    watch_signals();
    CHECK_FALSE(stop_requested());
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    CHECK(stop_requested());
    CHECK_FALSE(take_save_request());
}
