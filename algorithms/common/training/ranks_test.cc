// SPDX-License-Identifier: Apache-2.0
// Real ranks: this program starts itself once per rank, after which a rank plays one of the scenes
// below and leaves its numbers in a file. Nothing of LibTorch is called here before that, but for
// the store, which this process serves as torchrun does.
#define DOCTEST_CONFIG_IMPLEMENT
#include "common/base/error.h"
#include "common/base/random.h"
#include "common/training/updater.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace alg;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// ---- what a rank does -------------------------------------------------------------------------

/// Three buckets' worth of parameters, one of them never used.
struct Mlp : Module {
    static constexpr std::int64_t kIn = 8, kHidden = 1100;
    torch::Tensor &w1, &b1, &w2, &b2, &w3, &unused;
    Mlp()
        : w1(parameter("w1", normal({kHidden, kIn}, 0.3, 1))),
          b1(parameter("b1", at::zeros({kHidden}), false)),
          w2(parameter("w2", normal({kHidden, kHidden}, 0.03, 2))),
          b2(parameter("b2", at::zeros({kHidden}), false)),
          w3(parameter("w3", normal({1, kHidden}, 0.03, 3))),
          unused(parameter("unused", normal({10}, 1, 4))) {}
    torch::Tensor forward(const torch::Tensor& x) const {
        const torch::Tensor hidden = at::relu(at::linear(x, w1, b1));
        return at::linear(at::relu(at::linear(hidden, w2, b2)), w3);
    }
};

struct Rank {
    std::string scene;
    fs::path result;
    Place place;
    std::unique_ptr<Group> group;
};

/// Samples in the four micro-batches of an update: never equal, and sometimes a rank has none.
std::vector<std::int64_t> sizes_of(int update) {
    return update % 2 ? std::vector<std::int64_t>{5, 0, 9, 0}
                      : std::vector<std::int64_t>{5, 9, 0, 7};
}

UpdateResult train_once(const Rank& rank, const Mlp& mlp, Updater& updater, int update, bool bad) {
    std::vector<std::int64_t> mine;  // numbers of micro-batches
    for (int m = rank.place.rank; m < 4; m += rank.place.world) {
        mine.push_back(m);
    }
    const std::vector<std::int64_t> sizes = sizes_of(update);
    std::vector<std::vector<double>> counts;
    for (const std::int64_t m : mine) {
        const auto size = static_cast<double>(sizes[m]);
        counts.push_back({size, 2 * size});
    }
    updater.begin(counts);
    for (const std::int64_t m : mine) {
        if (sizes[m] == 0) {
            updater.backward({{}, {}});
            continue;
        }
        torch::Tensor x = normal({sizes[m], Mlp::kIn}, 1, key_of(7, update, m));
        if (bad && m == 1) {
            x.fill_(std::numeric_limits<float>::quiet_NaN());
        }
        const torch::Tensor y = mlp.forward(x), wanted = x.sum(1, true);
        updater.backward({{(y - wanted).square().sum()}, {y.abs().sum(), 0.1}});
    }
    return updater.finish();
}

void write_numbers(const fs::path& path, const std::vector<double>& numbers) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(double)));
}

void append(std::vector<double>& numbers, const torch::Tensor& tensor) {
    const torch::Tensor wide = tensor.detach().to(at::kDouble).contiguous();
    numbers.insert(numbers.end(), wide.const_data_ptr<double>(),
                   wide.const_data_ptr<double>() + wide.numel());
}

double cpu_seconds() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

void train(const Rank& rank) {
    Mlp mlp;
    const auto parameters = mlp.parameters();
    const auto optimizer = make_sgd(parameters, {.weight_decay = 1e-3});
    Updater updater(parameters, *optimizer, constant_rate(1e-3), *rank.group, {.clip_norm = 1});
    std::vector<double> numbers;
    double cpu = 0;
    try {
        for (int update = 0; update < 20; ++update) {
            if (update == 4 && rank.place.rank == 1) {
                if (rank.scene == "killed") raise(SIGKILL);
                if (rank.scene == "stopped") raise(SIGSTOP);
            }
            cpu = cpu_seconds();
            const UpdateResult result =
                train_once(rank, mlp, updater, update, rank.scene == "nan" && update == 4);
            if (!result.skipped) {
                numbers.insert(numbers.end(), {result.loss, result.norm, result.means.at(0),
                                               result.means.at(1), result.rate});
            }
        }
    } catch (const Failure&) {
        write_numbers(rank.result, {cpu_seconds() - cpu});
        throw;
    }
    numbers.push_back(static_cast<double>(updater.skipped()));
    for (const Parameter& parameter : parameters) {
        append(numbers, parameter.value);
    }
    write_numbers(rank.result, numbers);
}

void talk(const Rank& rank) {
    Group& group = *rank.group;
    std::vector<double> numbers{1.5, static_cast<double>(group.rank())};
    group.sum(std::span<double>(numbers));
    numbers.push_back(static_cast<double>(group.max(std::int64_t{1} << (60 + group.rank()))));
    numbers.push_back(static_cast<double>(group.max(-5 - group.rank())));
    torch::Tensor told = at::full({3}, group.rank() + 1);
    group.broadcast(told, 1);
    append(numbers, told);
    group.barrier();
    write_numbers(rank.result, numbers);
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

int be_rank(int argc, char** argv) {
    try {
        Rank rank{.scene = argv[2], .result = argc > 3 ? fs::path(argv[3]) : fs::path()};
        rank.place.rank = std::stoi(variable("RANK"));
        rank.place.world = std::stoi(variable("WORLD_SIZE"));
        rank.place.local_world = rank.place.world;
        rank.place.master_address = variable("MASTER_ADDR");
        rank.place.master_port = std::stoi(variable("MASTER_PORT"));
        if (rank.result.empty()) {  // started by a launcher, by hand
            rank.result = format("{}.{}", rank.scene, rank.place.rank);
        }
        at::set_num_threads(1);
        const bool impatient = rank.scene == "stopped" || rank.scene == "missing";
        rank.group = make_group(rank.place, torch::kCPU, impatient ? 2s : 60s);
        rank.scene == "talk" ? talk(rank) : train(rank);
    } catch (const std::exception& error) {
        std::ofstream(std::string(argc > 3 ? argv[3] : "failed") + ".error") << error.what();
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}

// ---- what the test does -----------------------------------------------------------------------

using Variables = std::vector<std::pair<std::string, std::string>>;

class Ranks {
public:
    Ranks(const std::string& scene, int world, int present, const Variables& variables)
        : scene_(scene) {
        char name[] = "/tmp/ranks_test.XXXXXX";
        folder_ = mkdtemp(name);
        for (int rank = 0; rank < present; ++rank) {
            Variables all = variables;
            all.insert(all.end(), {{"RANK", std::to_string(rank)},
                                   {"WORLD_SIZE", std::to_string(world)},
                                   {"OMP_NUM_THREADS", "1"},
                                   {"TORCHELASTIC_RUN_ID", folder_}});
            const pid_t child = fork();
            if (child == 0) {
                for (const auto& [key, value] : all) {
                    setenv(key.c_str(), value.c_str(), 1);
                }
                execl("/proc/self/exe", "ranks_test", "rank", scene.c_str(), file(rank).c_str(),
                      nullptr);
                _exit(127);
            }
            children_.push_back(child);
        }
    }
    ~Ranks() {
        for (std::size_t rank = 0; rank < children_.size(); ++rank) {
            end(static_cast<int>(rank));
        }
        fs::remove_all(folder_);
    }
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;

    /// Exit code, or minus the signal.
    int wait(int rank) {
        int status = 0;
        waitpid(children_.at(rank), &status, 0);
        children_.at(rank) = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    void end(int rank) {
        if (children_.at(rank) > 0) {
            kill(children_.at(rank), SIGKILL);
            wait(rank);
        }
    }
    std::vector<double> numbers(int rank) const {
        const std::string bytes = read(file(rank));
        std::vector<double> result(bytes.size() / sizeof(double));
        std::memcpy(result.data(), bytes.data(), result.size() * sizeof(double));
        return result;
    }
    std::string error(int rank) const { return read(file(rank) + ".error"); }

private:
    static std::string read(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::string file(int rank) const { return folder_ + "/" + std::to_string(rank); }

    std::string scene_, folder_;
    std::vector<pid_t> children_;
};

/// The store that a launcher serves.
struct Served {
    c10::intrusive_ptr<c10d::TCPStore> store;
    Variables variables;
    Served() {
        c10d::TCPStoreOptions options;
        options.port = 0;
        options.isServer = true;
        options.waitWorkers = false;
        store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
        variables = {{"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", std::to_string(store->getPort())},
                     {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    }
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::abs(a[i] - b[i]));
    }
    return largest;
}

std::string free_port() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    close(fd);
    return std::to_string(ntohs(address.sin_port));
}

}  // namespace

TEST_CASE("two ranks train as one with twice the micro-batches, empty and unequal ones included") {
    const Served served;
    Ranks one("train", 1, 1, served.variables), two("train", 2, 2, served.variables);
    CHECK(one.wait(0) == 0);
    CHECK(two.wait(0) == 0);
    CHECK(two.wait(1) == 0);
    const std::vector<double> alone = one.numbers(0);
    CHECK(alone.size() > 1'000'000);
    CHECK(alone.at(0) > alone.at(95));  // the loss of the first update and the last
    CHECK(largest_difference(alone, two.numbers(0)) < 1e-5);
    CHECK(two.numbers(0) == two.numbers(1));
}

TEST_CASE("numbers go around, served by rank 0 itself") {
    Ranks ranks("talk", 2, 2,
                {{"MASTER_ADDR", "127.0.0.1"},
                 {"MASTER_PORT", free_port()},
                 {"TORCHELASTIC_USE_AGENT_STORE", "False"}});
    CHECK(ranks.wait(0) == 0);
    CHECK(ranks.wait(1) == 0);
    for (const int rank : {0, 1}) {
        CHECK(ranks.numbers(rank) == std::vector<double>{3, 1, 0x1p61, -5, 2, 2, 2});
    }
}

TEST_CASE("a loss that is not a number on one rank makes all skip that update") {
    const Served served;
    Ranks ranks("nan", 2, 2, served.variables);
    CHECK(ranks.wait(0) == 0);
    CHECK(ranks.wait(1) == 0);
    const std::vector<double> numbers = ranks.numbers(0);
    CHECK(numbers == ranks.numbers(1));
    CHECK(numbers.at(19 * 5) == 1);  // skipped, after the five numbers of each good update
    for (const double number : numbers) {
        if (!std::isfinite(number)) FAIL("not finite");
    }
}

TEST_CASE("a rank that is killed is named by the others at once") {
    const Served served;
    Ranks ranks("killed", 2, 2, served.variables);
    CHECK(ranks.wait(1) == -SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    CHECK(ranks.wait(0) == 1);
    CHECK(std::chrono::steady_clock::now() - start < 30s);
    CHECK(ranks.error(0).find("rank 0 of 2 could not sum: lost the connection to a rank on algo-1 "
                              "(127.0.0.1)") != std::string::npos);
}

TEST_CASE(
    "a rank that hangs is reported after the timeout, waited for without using the processor") {
    const Served served;
    Ranks ranks("stopped", 2, 2, served.variables);
    CHECK(ranks.wait(0) == 1);
    CHECK(ranks.error(0).find("no answer within 2 s") != std::string::npos);
    CHECK(ranks.numbers(0).at(0) < 1);
}

TEST_CASE("a rank that never comes is reported after the timeout") {
    const Served served;
    Ranks ranks("missing", 2, 1, served.variables);
    CHECK(ranks.wait(0) == 1);
    CHECK(ranks.error(0).find("rank 0 of 2 (algo-1) could not connect to all others within 2 s") !=
          std::string::npos);
}

int main(int argc, char** argv) {
    if (argc > 2 && std::string(argv[1]) == "rank") {
        return be_rank(argc, argv);
    }
    doctest::Context context(argc, argv);
    return context.run();
}
