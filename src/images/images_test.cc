// SPDX-License-Identifier: Apache-2.0
#include "images/images.h"
#include "base/error.h"
#include "base/result.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::images;

namespace {

/// A stand-in interpreter: answers every question with the given modules.
std::string fake_python(const sys::TempDir& dir, const std::string& modules) {
    const sys::fs::path path = dir.path() / "env" / "bin" / "python";
    sys::fs::create_directories(path.parent_path());
    sys::write_file(path,
                    "#!/bin/sh\necho '{\"python\":\"" + path.string() +
                        "\",\"version\":\"3.11.2\",\"prefix\":\"" + (dir.path() / "env").string() +
                        "\",\"base_prefix\":\"/usr\",\"path\":[\"" +
                        (dir.path() / "env/lib").string() +
                        "\",\"/elsewhere/packages\"],\"modules\":" + modules + "}'\n",
                    0755);
    return path.string();
}

constexpr const char* kPyTorchImage =
    "763104351884.dkr.ecr.us-east-1.amazonaws.com/"
    "pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker";

}  // namespace

TEST_CASE("AWS's PyTorch image resolves to a Python that has torch, in any region and version") {
    sys::TempDir dir;
    const Catalogue catalogue(aws_framework_definitions(),
                              {fake_python(dir, R"({"torch":"2.13.0"})")});
    const plan::Environment environment = catalogue.resolve(kPyTorchImage);
    CHECK(environment.name == "pytorch");
    CHECK(environment.toolkit);
    CHECK(environment.description.starts_with("Python 3.11.2, torch 2.13.0 ("));
    CHECK(environment.path.front() == (dir.path() / "env" / "bin").string());
    // The interpreter's own folder once, and what it imports from elsewhere.
    CHECK(environment.readable ==
          std::vector<std::string>{(dir.path() / "env").string(), "/elsewhere/packages"});
    CHECK(
        catalogue.resolve("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch-training:1.13")
            .name == "pytorch");
}

TEST_CASE("an image nobody maps is refused with the nearest usable choices") {
    sys::TempDir dir;
    const Catalogue catalogue(aws_framework_definitions(),
                              {fake_python(dir, R"({"torch":"2.13.0"})")});
    const auto outcome = capture([&] { return catalogue.resolve("acme/pytorhc:1"); });
    REQUIRE_FALSE(outcome.ok());
    CHECK(outcome.error().reason() == "ImageNotMapped");
    CHECK(outcome.error().message().find("nearest: pytorch") != std::string::npos);
    // By repository: the registry's long name must not drown the difference.
    const auto typo = capture([&] {
        return catalogue.resolve(
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trainin:2.8.0-cpu-py312");
    });
    REQUIRE_FALSE(typo.ok());
    CHECK(typo.error().message().find("nearest: pytorch-training, ") != std::string::npos);
}

TEST_CASE("a known framework without an interpreter says what is missing") {
    sys::TempDir dir;
    const Catalogue catalogue(aws_framework_definitions(),
                              {fake_python(dir, R"({"torch":"2.13.0"})")});
    const auto outcome = capture([&] {
        return catalogue.resolve(
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19");
    });
    REQUIRE_FALSE(outcome.ok());
    CHECK(outcome.error().reason() == "EnvironmentUnavailable");
    CHECK(outcome.error().message().find("can import tensorflow") != std::string::npos);
}

TEST_CASE("a configured definition comes before AWS's and carries its code and variables") {
    sys::TempDir dir;
    std::vector<Definition> definitions = {
        {.name = "ernie",
         .match = {"*/ernie-pretraining:*"},
         .python = sys::fs::path(fake_python(dir, R"({"torch":"2"})")).parent_path().parent_path(),
         .variables = {{"SAGEMAKER_PROGRAM", "train.py"}},
         .code = "/srv/ernie"}};
    const Catalogue catalogue(definitions, {});
    const plan::Environment environment =
        catalogue.resolve("1.dkr.ecr.us-east-1.amazonaws.com/ernie-pretraining:latest");
    CHECK(environment.code == "/srv/ernie");
    CHECK(environment.variables.front().second == "train.py");
    CHECK(environment.python.ends_with("/env/bin/python"));
}

TEST_CASE("the host image needs no interpreter at all") {
    const Catalogue catalogue(aws_framework_definitions(), {});
    CHECK(catalogue.resolve("trainyard/host").python.empty());
    CHECK_FALSE(catalogue.resolve("trainyard/host").toolkit);
}

TEST_CASE("an interpreter that does not run or babbles is no candidate") {
    CHECK_FALSE(probe_python("/nonexistent/python").has_value());
    CHECK_FALSE(probe_python("/bin/true").has_value());
}

namespace {

/// A folder with one built-in program, as its build leaves it.
sys::fs::path algorithms_with(const sys::TempDir& dir, const std::string& name) {
    const sys::fs::path folder = dir.path() / "algorithms";
    sys::fs::create_directories(folder);
    sys::fs::create_directories(dir.path() / "torch/lib");
    sys::write_file(folder / name, "#!/bin/sh\n", 0755);
    sys::write_file(folder / (name + ".json"),
                    "{\"image\": \"trainyard/" + name + "\", \"program\": \"" + name +
                        "\", \"libraries\": [\"" + (dir.path() / "torch/lib").string() +
                        "\"], \"torch\": \"2.13.0\"}\n");
    return folder;
}

}  // namespace

TEST_CASE("a built-in program is an image under any tag and behind any registry") {
    sys::TempDir dir;
    const sys::fs::path folder = algorithms_with(dir, "masked-lm");
    const Catalogue catalogue(aws_framework_definitions(), {}, folder);
    for (const char* image :
         {"trainyard/masked-lm", "trainyard/masked-lm:latest", "trainyard/masked-lm:1.2",
          "trainyard/masked-lm@sha256:00",
          "000000000000.dkr.ecr.us-east-1.amazonaws.com/trainyard/masked-lm",
          "000000000000.dkr.ecr.us-east-1.amazonaws.com/trainyard/masked-lm:1"}) {
        CAPTURE(image);
        const plan::Environment environment = catalogue.resolve(image);
        CHECK(environment.entrypoint == std::vector<std::string>{(folder / "masked-lm").string()});
        CHECK(environment.readable ==
              std::vector<std::string>{folder.string(), (dir.path() / "torch/lib").string()});
        CHECK(environment.launcher);
        CHECK_FALSE(environment.toolkit);
        CHECK(environment.python.empty());
        CHECK(environment.description ==
              "built-in program " + (folder / "masked-lm").string() + ", LibTorch 2.13.0");
    }
    CHECK_FALSE(capture([&] { return catalogue.resolve("trainyard/masked-lm-2"); }).ok());
}

TEST_CASE("a built-in program that is not built is refused with the way to build it") {
    sys::TempDir dir;
    const Catalogue catalogue(aws_framework_definitions(), {}, dir.path() / "algorithms");
    const auto absent = capture([&] { return catalogue.resolve("trainyard/masked-lm:1"); });
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().reason() == "ImageNotMapped");
    CHECK(absent.error().message().find("make algorithms") != std::string::npos);
    algorithms_with(dir, "masked-lm");  // without a restart
    CHECK(catalogue.resolve("trainyard/masked-lm:1").name == "trainyard/masked-lm");
    const auto typo = capture([&] { return catalogue.resolve("trainyard/maskedlm"); });
    REQUIRE_FALSE(typo.ok());
    CHECK(typo.error().message().find("nearest: trainyard/masked-lm") != std::string::npos);
    sys::fs::remove_all(dir.path() / "torch");
    const auto gone = capture([&] { return catalogue.resolve("trainyard/masked-lm"); });
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().reason() == "EnvironmentUnavailable");
    CHECK(gone.error().message().find("LibTorch") != std::string::npos);
}

TEST_CASE("what is not the description of a program is passed over") {
    sys::TempDir dir;
    const sys::fs::path folder = algorithms_with(dir, "masked-lm");
    sys::write_file(folder / "notes.json", "[1]");
    sys::write_file(folder / "torn.json", "{\"image\":");
    CHECK(built_in_definitions(folder).size() == 1);
    CHECK(built_in_definitions(dir.path() / "nowhere").empty());
}
