// SPDX-License-Identifier: Apache-2.0
#include "common/base/contract.h"

#include "common/base/error.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

using namespace alg;

namespace {

constexpr const char* kVariables[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",
                                      "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"};

/// An /opt/ml of its own and an environment without a launcher's variables.
class Folder {
public:
    Folder() {
        char name[] = "/tmp/contract-test-XXXXXX";
        root = mkdtemp(name);
        ::setenv("TRAINYARD_OPT_ML", root.c_str(), 1);
        for (const char* variable : kVariables) ::unsetenv(variable);
        fs::create_directories(root / "input/config");
    }
    ~Folder() {
        for (const char* variable : kVariables) ::unsetenv(variable);
        ::unsetenv("TRAINYARD_OPT_ML");
        fs::remove_all(root);
    }
    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root / path).parent_path());
        std::FILE* file = std::fopen((root / path).c_str(), "w");
        REQUIRE(file != nullptr);
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
    }
    std::string read(const std::string& path) const {
        std::FILE* file = std::fopen((root / path).c_str(), "r");
        if (file == nullptr) return "absent";
        std::string text(4096, '\0');
        text.resize(std::fread(text.data(), 1, text.size(), file));
        std::fclose(file);
        return text;
    }
    fs::path root;
};

const std::vector<std::string> kChannels = {"train", "valid", "model"};
const std::vector<std::string> kNames = {"batch_size", "learning_rate", "in_tokens", "name"};

Contract read(std::vector<const char*> words, const fs::path& config = {}) {
    words.insert(words.begin(), "demo");
    return read_contract(static_cast<int>(words.size()), words.data(), kChannels, kNames, config);
}

std::string failure(const std::vector<const char*>& words = {}) {
    try {
        read(words);
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "none";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a container's files are read: values, channels, place") {
    const Folder folder;
    folder.write("input/config/hyperparameters.json",
                 R"({"batch_size": "8192", "name": "\"text\"", "in_tokens": "true",
                     "learning_rate": "null", "sagemaker_program": "\"train.py\"",
                     "_tuning_objective_metric": "loss", "processes_per_host": "2"})");
    folder.write("input/config/inputdataconfig.json",
                 R"({"train": {"TrainingInputMode": "File"}, "code": {}})");
    folder.write("input/config/resourceconfig.json",
                 R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-2"],
                     "network_interface_name": "eth0"})");
    folder.write("input/data/train/part-0", "");
    const Contract contract = read({});
    CHECK(contract.hyperparameters == std::map<std::string, std::string>{{"batch_size", "8192"},
                                                                         {"in_tokens", "true"},
                                                                         {"name", "text"}});
    CHECK(contract.channel("train") == folder.root / "input/data/train");
    CHECK(contract.place.rank == 1);
    CHECK(contract.place.world == 2);
    CHECK(contract.place.master_address == "algo-1");
    CHECK(contract.place.interface == "eth0");
    CHECK(contract.model == folder.root / "model");
    CHECK_FALSE(contract.has_checkpoints);
    CHECK_THROWS_WITH_AS(contract.channel("valid"),
                         "channel \"valid\" is missing; channels given: \"code\" \"train\"",
                         Failure);
}

TEST_CASE("the command line goes over the files") {
    const Folder folder;
    folder.write("input/config/hyperparameters.json", R"({"batch_size": "8", "name": "a"})");
    const Contract contract =
        read({"train", "--batch-size=-4", "--learning_rate", "-1", "--train", "/tmp", "--model",
              "/m", "--channel", "model=/start", "--checkpoints", "/c", "in_tokens=true"});
    CHECK(contract.hyperparameters ==
          std::map<std::string, std::string>{
              {"batch_size", "-4"}, {"in_tokens", "true"}, {"learning_rate", "-1"}, {"name", "a"}});
    CHECK(contract.origin.at("batch_size") == "command line");
    CHECK(contract.channel("train") == "/tmp");
    CHECK(contract.channels.at("model") == "/start");
    CHECK(contract.model == "/m");
    CHECK(contract.has_checkpoints);
}

TEST_CASE("all problems of the command line are told at once") {
    const Folder folder;
    const std::string text = failure(
        {"--batchsize", "3", "--learning_rate", "--in_tokens=1", "loose", "--channel", "x"});
    CHECK(contains(text, "--batchsize is unknown; did you mean --batch_size?"));
    CHECK(contains(text, "--learning_rate needs a value"));
    CHECK(contains(text, "\"loose\" is neither --name value nor key=value"));
    CHECK(contains(text, "--channel x is not name=folder"));
}

TEST_CASE("without /opt/ml the place of the model must be named before training") {
    const Folder folder;
    const fs::path nowhere = folder.root / "none";
    ::setenv("TRAINYARD_OPT_ML", nowhere.c_str(), 1);
    CHECK(contains(failure(), "use --model FOLDER"));
    CHECK(failure({"--model", "/m"}) == "none");
    ::setenv("TRAINYARD_OPT_ML", folder.root.c_str(), 1);
}

TEST_CASE("files that are not what they should be are refused with their name") {
    const Folder folder;
    const auto refuses = [&](const char* file, const std::string& text, const std::string& words) {
        const std::string path = "input/config/" + std::string(file);
        folder.write(path, text);
        const std::string told = failure();
        CHECK_MESSAGE(contains(told, file), text.substr(0, 80));
        CHECK_MESSAGE(contains(told, words), told);
        fs::remove(folder.root / path);
    };
    refuses("hyperparameters.json", "{\"batch_size\": \"8", "the JSON ends in the middle");
    refuses("hyperparameters.json", "", "the JSON ends in the middle");
    refuses("hyperparameters.json", "{\n\"a\": ?}", "json:2: is not valid JSON");
    refuses("hyperparameters.json", "[]", "is a list; an object");
    refuses("hyperparameters.json", R"({"a": {}, "b": [1]})",
            "\"a\" is an object, not a text; hyperparameter \"b\" is a list, not a text");
    refuses("hyperparameters.json", "{\"a\": \"" + std::string(2 << 20, 'x') + "\"}",
            "is larger than the 1048576 bytes allowed");
    refuses("hyperparameters.json", "{\"a\": \"" + std::string(70 << 10, 'x') + "\"}",
            "more than the 65536 allowed");
    refuses("hyperparameters.json", std::string(1 << 19, '['), "JSON");
    refuses("hyperparameters.json", "{\"a\": \"\xFF\"}", "not valid JSON");
    refuses("inputdataconfig.json", R"({"../up": {}})", "cannot be a channel's name");
    refuses("inputdataconfig.json", R"({"train": "File"})", "is a text, not an object");
    refuses("resourceconfig.json", "{}", "\"hosts\" is missing");
    refuses("resourceconfig.json", R"({"hosts": []})", "\"hosts\" is empty");
    refuses("resourceconfig.json", R"({"hosts": [1], "current_host": "a"})", "contains a number");
    refuses("resourceconfig.json", R"({"hosts": ["a"], "current_host": "b"})",
            "none of the 1 hosts");
    refuses("resourceconfig.json", R"({"hosts": ["a", "a"], "current_host": "a"})", "twice");
    refuses("resourceconfig.json", R"({"hosts": ["a"], "current_host": 1})", "is a number, not");
    folder.write("input/config/inputdataconfig.json",
                 R"({"train": {"TrainingInputMode": "Pipe"}})");
    CHECK(contains(failure(), "use File or FastFile"));
    fs::remove(folder.root / "input/config/inputdataconfig.json");
    REQUIRE(::mkfifo((folder.root / "input/config/hyperparameters.json").c_str(), 0600) == 0);
    CHECK(contains(failure(), "is not a regular file"));  // and does not wait for a writer
}

TEST_CASE("numbers and true or false of a file written by hand are taken as text") {
    const Folder folder;
    folder.write("input/config/hyperparameters.json",
                 R"({"batch_size": 8, "in_tokens": true, "name": null, "learning_rate": 0.1})");
    CHECK(read({}).hyperparameters == std::map<std::string, std::string>{{"batch_size", "8"},
                                                                         {"in_tokens", "true"},
                                                                         {"learning_rate", "0.1"}});
}

TEST_CASE("a launcher's variables decide the place") {
    const Folder folder;
    ::setenv("RANK", "3", 1);
    CHECK(contains(failure(), "RANK is set but WORLD_SIZE is not"));
    ::setenv("WORLD_SIZE", "4", 1);
    ::setenv("LOCAL_RANK", "1", 1);
    ::setenv("LOCAL_WORLD_SIZE", "2", 1);
    CHECK(contains(failure(), "MASTER_ADDR is not set"));
    ::setenv("MASTER_ADDR", "10.0.0.1", 1);
    ::setenv("MASTER_PORT", "7777", 1);
    const Place place = read({}).place;
    CHECK(place.rank == 3);
    CHECK(place.world == 4);
    CHECK(place.local_rank == 1);
    CHECK(place.local_world == 2);
    CHECK(place.master_address == "10.0.0.1");
    CHECK(place.master_port == 7777);
    ::setenv("RANK", "4", 1);
    CHECK(contains(failure(), "ranks count from 0"));
    ::setenv("RANK", "two", 1);
    CHECK(contains(failure(), "RANK is \"two\"; a whole number from 0"));
    ::setenv("RANK", "0", 1);
    ::setenv("LOCAL_RANK", "2", 1);
    CHECK(contains(failure(), "contradict each other"));
    ::setenv("LOCAL_RANK", "0", 1);
    ::setenv("MASTER_PORT", "65536", 1);
    CHECK(contains(failure(), "MASTER_PORT is \"65536\""));
}

TEST_CASE("configuration files lie under the job's values, those under the command line") {
    const Folder folder;
    folder.write("conf/config.yaml", "defaults:\n  - model: base\nbatch_size: 1\nname: conf\n");
    folder.write("conf/model/base.yaml", "learning_rate: 1e-4\nin_tokens: true\n");
    folder.write("conf/model/tiny.yaml", "learning_rate: 1e-3\n");
    folder.write("input/config/hyperparameters.json",
                 R"({"batch_size": "2", "config_overrides": "model=tiny model.in_tokens=false"})");
    Contract contract = read({"--name", "line"}, folder.root / "conf");
    CHECK(contract.hyperparameters == std::map<std::string, std::string>{{"batch_size", "2"},
                                                                         {"in_tokens", "false"},
                                                                         {"learning_rate", "1e-3"},
                                                                         {"name", "line"}});
    CHECK(contract.origin.at("learning_rate") == folder.root / "conf/model/tiny.yaml");
    contract = read({"--config", "model=base", "model.batch_size=3"}, folder.root / "conf");
    CHECK(contract.hyperparameters.at("learning_rate") == "1e-4");
    CHECK(contract.hyperparameters.at("batch_size") == "3");
    contract = read({"--config", "model=base", "model.x=3"});
    CHECK(contract.hyperparameters.at("config_overrides") ==
          "model=tiny model.in_tokens=false model=base model.x=3");
}

TEST_CASE("a failure becomes one line, the failure file and exit code 1") {
    const Folder folder;
    fs::create_directories(folder.root / "output");
    const char* const argv[] = {"/bin/demo"};
    const int saved = ::dup(STDERR_FILENO);
    const int file = ::open((folder.root / "stderr").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    ::dup2(file, STDERR_FILENO);
    const auto run = [&](int (*body)(int, const char* const*)) {
        return run_program(1, argv, body);
    };
    CHECK(run([](int, const char* const*) { return 143; }) == 143);
    CHECK(folder.read("output/failure") == "absent");
    CHECK(run([](int, const char* const*) -> int { fail("no\nluck"); }) == 1);
    CHECK(folder.read("output/failure") == "no\nluck");
    CHECK(run([](int, const char* const*) -> int { throw std::runtime_error("a\nbacktrace"); }) ==
          1);
    CHECK(folder.read("output/failure") == "internal error: a");
    ::setenv("TORCHELASTIC_ERROR_FILE", (folder.root / "error.json").c_str(), 1);
    CHECK(run([](int, const char* const*) -> int { throw std::bad_alloc(); }) == 1);
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    CHECK(folder.read("error.json").starts_with(R"({"message":{"extraInfo":{"timestamp":")"));
    CHECK(contains(folder.read("output/failure"), "out of memory"));
    CHECK(run([](int, const char* const*) -> int { throw 3; }) == 1);
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(file);
    CHECK(folder.read("stderr").starts_with("demo: no luck\ndemo: internal error: a\n"));
}

TEST_CASE("of several processes the first one's failure stays") {
    const Folder folder;
    fs::create_directories(folder.root / "output");
    ::setenv("LOCAL_WORLD_SIZE", "2", 1);
    const char* const argv[] = {"demo"};
    const int saved = ::dup(STDERR_FILENO);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDERR_FILENO);
    write_failure(folder.root / "output", "of a run long ago");
    fs::last_write_time(folder.root / "output/failure",
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
    CHECK(run_program(1, argv, [](int, const char* const*) -> int { fail("cause"); }) == 1);
    CHECK(folder.read("output/failure") == "cause");
    // The second started before the first had failed.
    fs::last_write_time(folder.root / "output/failure",
                        fs::file_time_type::clock::now() + std::chrono::hours(1));
    CHECK(run_program(1, argv, [](int, const char* const*) -> int { fail("peer is gone"); }) == 1);
    CHECK(folder.read("output/failure") == "cause");
    ::dup2(saved, STDERR_FILENO);
    ::close(saved);
    ::close(null);
}

TEST_CASE("a failure is cut between characters") {
    const Folder folder;
    std::string text(1023, 'a');
    text += "语言";
    write_failure(folder.root / "output", text);
    CHECK(folder.read("output/failure") == std::string(1023, 'a'));
    write_failure("/proc/nowhere", text);  // nothing can be done, nothing is thrown
}
