// SPDX-License-Identifier: Apache-2.0
// Reading and writing through LibTorch; the formats themselves are tested without it, and against
// Python by files_parity.py.
#include "common/files/tensors.h"
#include "common/base/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>

using namespace alg;

namespace {

struct Folder {
    fs::path path;
    Folder() {
        std::string name = (fs::temp_directory_path() / "tensors_test.XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
};

std::string problem(const std::function<void()>& body) {
    try {
        body();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

at::Tensor numbers(std::int64_t count) {
    return at::arange(count, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

TEST_CASE("values of every kind come back, with views still views") {
    const Folder folder;
    const at::Tensor whole = numbers(10);
    const Value written = Dictionary{{"whole", whole},
                                     {"part", whole.narrow(0, 4, 3)},
                                     {"n", nullptr},
                                     {"flag", true},
                                     {"step", std::int64_t{-5}},
                                     {"rate", 0.5},
                                     {"text", std::string("中")},
                                     {"list", std::vector<Value>{std::int64_t{1}, Dictionary{}}}};
    write_torch(folder.path / "a.pt", written);
    const Value read = read_torch(folder.path / "a.pt");
    CHECK(std::get<Dictionary>(read).size() == 8);
    const at::Tensor back = std::get<at::Tensor>(*read.find("whole"));
    const at::Tensor part = std::get<at::Tensor>(*read.find("part"));
    CHECK(at::equal(back, whole));
    back[5] = 99;
    CHECK(part[1].item<float>() == 99);
    CHECK(std::get<bool>(*read.find("flag")));
    CHECK(std::get<std::int64_t>(*read.find("step")) == -5);
    CHECK(std::get<double>(*read.find("rate")) == 0.5);
    CHECK(std::get<std::string>(*read.find("text")) == "中");
    CHECK(std::get<std::vector<Value>>(*read.find("list")).size() == 2);
    CHECK(read.find("absent") == nullptr);
    // The file is not what was written into.
    const Value again = read_torch(folder.path / "a.pt");
    CHECK(at::equal(std::get<at::Tensor>(*again.find("whole")), whole));
}

TEST_CASE("equal values are equal bytes") {
    const Folder folder;
    for (const char* name : {"a.pt", "b.pt"})
        write_torch(folder.path / name, Dictionary{{"x", numbers(100)}});
    const auto content = [&](const char* name) {
        std::ifstream in(folder.path / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    CHECK(content("a.pt") == content("b.pt"));
}

TEST_CASE("tensors outlive the file they came from") {
    const Folder folder;
    write_torch(folder.path / "a.pt", Dictionary{{"x", numbers(100'000)}});
    const Value read = read_torch(folder.path / "a.pt");
    write_torch(folder.path / "a.pt", Dictionary{{"x", numbers(3)}});
    fs::remove(folder.path / "a.pt");
    CHECK(at::equal(std::get<at::Tensor>(*read.find("x")), numbers(100'000)));
}

TEST_CASE("safetensors keep order, types, odd places and metadata") {
    const Folder folder;
    const NamedTensors written{
        {"z", numbers(3).to(at::kChar)},        {"turned", numbers(6).view({2, 3}).t()},
        {"half", numbers(5).to(at::kBFloat16)}, {"scalar", at::full({}, 2.5)},
        {"empty", at::empty({0, 4})},           {"flags", numbers(3).to(at::kBool)}};
    write_safetensors(folder.path / "a.safetensors", written, {{"epoch", "3"}});
    std::map<std::string, std::string> metadata;
    const NamedTensors read = read_safetensors(folder.path / "a.safetensors", &metadata);
    REQUIRE(read.size() == written.size());
    for (std::size_t i = 0; i < read.size(); ++i) {
        CHECK(read[i].first == written[i].first);
        CHECK(at::equal(read[i].second, written[i].second));
    }
    CHECK(metadata == std::map<std::string, std::string>{{"epoch", "3"}, {"format", "pt"}});
}

TEST_CASE("weights are found by content, in folders and under the usual names") {
    const Folder folder;
    const Dictionary state{{"a", numbers(2)}, {"b", numbers(3)}};
    const auto check = [](const fs::path& path) {
        const NamedTensors read = read_weights(path);
        REQUIRE(read.size() == 2);
        CHECK(read[1].first == "b");
        CHECK(at::equal(read[1].second, numbers(3)));
    };
    CHECK(problem([&] { read_weights(folder.path); }).find("neither") != std::string::npos);
    write_torch(folder.path / "pytorch_model.bin", state);
    check(folder.path);
    write_safetensors(folder.path / "model.safetensors", {{"a", numbers(2)}, {"b", numbers(3)}});
    check(folder.path);
    write_torch(folder.path / "x.safetensors",
                Dictionary{{"epoch", std::int64_t{3}}, {"model", state}});
    check(folder.path / "x.safetensors");
    write_torch(folder.path / "x", Dictionary{{"module.a", numbers(2)}, {"module.b", numbers(3)}});
    check(folder.path / "x");
    write_torch(folder.path / "y", Dictionary{{"epoch", std::int64_t{3}}});
    CHECK(problem([&] { read_weights(folder.path / "y"); }).find("\"epoch\" is no tensor") !=
          std::string::npos);
    CHECK(problem([&] { read_weights(folder.path / "missing"); }).find("no such file") !=
          std::string::npos);
}

TEST_CASE("what cannot be written is named and leaves nothing") {
    const Folder folder;
    const fs::path file = folder.path / "a.pt";
    CHECK(problem([&] {
              write_torch(file, Dictionary{{"m", Dictionary{{"x", at::Tensor()}}}});
          }).find("\"m.x\" is undefined") != std::string::npos);
    CHECK(problem([&] {
              write_torch(
                  file,
                  Dictionary{{"x", at::empty({2}, at::TensorOptions().dtype(at::kComplexFloat))}});
          }).find("ComplexFloat") != std::string::npos);
    CHECK(problem([&] {
              write_safetensors(file, {{"x", numbers(2)}, {"x", numbers(2)}});
          }).find("two tensors named \"x\"") != std::string::npos);
    CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a full disk leaves nothing and says so") {
    const Folder folder;
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit limit{.rlim_cur = 500'000, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const fs::path torch = folder.path / "a.pt", safe = folder.path / "a.safetensors";
    const std::string first = problem([&] {
        write_torch(torch, Dictionary{{"x", numbers(1'000'000)}});
    });
    const std::string second = problem([&] {
        write_safetensors(safe, {{"x", numbers(1'000'000)}});
    });
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK(first == torch.string() + ": cannot write it: file too large");
    CHECK(second == safe.string() + ": cannot write it: file too large");
    CHECK(fs::is_empty(folder.path));
}

TEST_CASE("other files are refused by what they are") {
    const Folder folder;
    const auto said = [&](const std::string& content) {
        std::ofstream(folder.path / "f", std::ios::binary) << content;
        return problem([&] { read_weights(folder.path / "f"); });
    };
    CHECK(said("").find("empty") != std::string::npos);
    CHECK(said("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull") !=
          std::string::npos);
    CHECK(said("<html>not found</html>").find("not a file of torch.save") != std::string::npos);
    CHECK(said("PK\x03\x04").find("no archive") != std::string::npos);
}
