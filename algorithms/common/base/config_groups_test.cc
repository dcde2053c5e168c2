// SPDX-License-Identifier: Apache-2.0
#include "common/base/config_groups.h"

#include "common/base/error.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

using namespace alg;
namespace fs = std::filesystem;

namespace {

struct Folder {
    Folder() {
        char name[] = "/tmp/config-test-XXXXXX";
        root = mkdtemp(name);
        write("config.yaml", "defaults:\n  - model: base\n  - optim: adamw\nseed: 1\n");
        write("model/base.yaml", "layers: 12\nhidden: 768\n");
        write("model/tiny.yaml", "layers: 2\nhidden: 128\n");
        write("optim/adamw.yaml", "rate: 1e-4\ndecay: 0.01\n");
    }
    ~Folder() { fs::remove_all(root); }
    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root / path).parent_path());
        std::FILE* file = std::fopen((root / path).c_str(), "w");
        REQUIRE(file != nullptr);
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
    }
    std::string failure(const std::vector<std::string>& overrides = {}) const {
        try {
            compose(root, "config", overrides);
        } catch (const Failure& failure) {
            return failure.what();
        }
        return "none";
    }
    fs::path root;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("groups are composed flat, own values over them, overrides over all") {
    const Folder folder;
    folder.write("config.yaml",
                 "defaults:\n  - model: base\n  - optim: adamw\nseed: 1\nmodel: {layers: 6}\n");
    Configuration made = compose(folder.root, "config", {});
    CHECK(made.values == std::map<std::string, std::string>{{"decay", "0.01"},
                                                            {"hidden", "768"},
                                                            {"layers", "6"},
                                                            {"rate", "1e-4"},
                                                            {"seed", "1"}});
    CHECK(made.chosen == std::vector<std::string>{"model=base", "optim=adamw"});
    CHECK(made.origin.at("hidden") == (folder.root / "model/base.yaml").string());
    made = compose(folder.root, "config", {"seed=2", "optim.rate=3", "model=tiny"});
    CHECK(made.values.at("hidden") == "128");
    CHECK(made.values.at("rate") == "3");
    CHECK(made.values.at("seed") == "2");
    CHECK(made.origin.at("rate") == "optim.rate=3");
}

TEST_CASE("_self_ says where the own values lie") {
    const Folder folder;
    folder.write("config.yaml", "defaults:\n  - _self_\n  - model: base\nlayers: 6\nseed: 1\n");
    CHECK(compose(folder.root, "config", {}).values.at("layers") == "12");
}

TEST_CASE("what cannot be composed is refused with file and line") {
    const Folder folder;
    CHECK(contains(folder.failure({"model=huge"}),
                   "group \"model\" has no choice \"huge\"; choices: base, tiny"));
    CHECK(contains(folder.failure({"modle.layers=3"}),
                   "there is no group \"modle\"; groups: model, optim"));
    CHECK(contains(folder.failure({"model.rate=3"}), "\"rate\" belongs to group \"optim\""));
    CHECK(contains(folder.failure({"model=../../etc/passwd"}), "has no choice"));
    CHECK(contains(folder.failure({"=3"}), "is not group=choice or key=value"));
    const auto refuses = [&folder](const char* text, const char* words) {
        folder.write("optim/adamw.yaml", text);
        const std::string told = folder.failure();
        CHECK_MESSAGE(contains(told, "adamw.yaml:"), told);
        CHECK_MESSAGE(contains(told, words), told);
    };
    refuses("a: 1\nb: [1, 2]\n", ":2: \"b\" is no single value");
    refuses("a: {b: 1}\n", "\"a\" is no single value");
    refuses("a: 1\n b: : 2\n", "is not valid YAML");
    refuses("- 1\n", "names and values are expected");
    refuses("layers: 3\n", "belongs to group \"model\" already");
    refuses("? [1]\n: 2\n", "this is no name of a value");
    refuses("a: *nowhere\n", "is not valid YAML");
    fs::remove(folder.root / "optim/adamw.yaml");
    CHECK(contains(folder.failure(), "group \"optim\" has no choice \"adamw\"; choices: none"));
    folder.write("config.yaml", "defaults: model\n");
    CHECK(contains(folder.failure(), "config.yaml:1: defaults:"));
    folder.write("config.yaml", "other: {a: 1}\n");
    CHECK(contains(folder.failure(), "neither a value nor one of the groups"));
    fs::remove(folder.root / "config.yaml");
    CHECK(contains(folder.failure(), "there is no such file"));
}

TEST_CASE("values in force are written as YAML that reads back the same") {
    const std::map<std::string, std::string> values = {
        {"colon", "a: b"}, {"empty", ""},         {"flag", "true"},   {"number", "1e-4"},
        {"quote", "\""},   {"text", "语言 # no"}, {"newline", "a\nb"}};
    const Folder folder;
    folder.write("config.yaml", to_yaml(values));
    CHECK(compose(folder.root, "config", {}).values == values);
    CHECK(contains(to_yaml(values), "number: 1e-4\n"));
}
