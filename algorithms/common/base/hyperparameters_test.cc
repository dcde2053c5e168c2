// SPDX-License-Identifier: Apache-2.0
#include "common/base/hyperparameters.h"

#include "common/base/error.h"

#include <doctest/doctest.h>

using namespace alg;

namespace {

struct Options {
    std::int64_t steps = 100;
    double rate = 1e-4, dropout = 0.1;
    bool in_tokens = false;
    std::string folder = "here", kind = "linear";
};

Hyperparameters declare(Options& options) {
    Hyperparameters declared("demo");
    declared.integer("num_train_steps", &options.steps, {.at_least = 1}, "updates");
    declared.number("learning_rate", &options.rate, {.above = 0}, "peak");
    declared.number("dropout", &options.dropout, {.at_least = 0, .below = 1}, "share");
    declared.flag("in_tokens", &options.in_tokens, "count tokens");
    declared.text("folder", &options.folder, "where");
    declared.choice("schedule", &options.kind, {"linear", "noam"}, "shape");
    declared.ignored("use_cuda", "the device is chosen by itself");
    declared.alias("lr", "learning_rate");
    return declared;
}

std::string failure(Hyperparameters& declared, const std::map<std::string, std::string>& given) {
    try {
        declared.read(given);
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "none";
}

}  // namespace

TEST_CASE("values are read into the members, everything else keeps its default") {
    Options options;
    Hyperparameters declared = declare(options);
    declared.read({{"num_train_steps", "30"},
                   {"lr", "5e-5"},
                   {"in_tokens", "True"},
                   {"schedule", "noam"},
                   {"use_cuda", "whatever"}});
    CHECK(options.steps == 30);
    CHECK(options.rate == 5e-5);
    CHECK(options.in_tokens);
    CHECK(options.kind == "noam");
    CHECK(options.dropout == 0.1);
    CHECK(declared.values().at("learning_rate") == "5e-05");
    CHECK(declared.values().at("in_tokens") == "true");
}

TEST_CASE("numbers may be written as Python's floats are") {
    Options options;
    Hyperparameters declared = declare(options);
    for (const char* text : {"1000000", "1e6", "1000000.0", "+1000000", " 1000000 "}) {
        options.steps = 0;
        declared.read({{"num_train_steps", text}});
        CHECK_MESSAGE(options.steps == 1000000, text);
    }
    for (const char* text : {"", "1.5", "1e400", "nan", "0x10", "1 2", "99999999999999999999"})
        CHECK_MESSAGE(failure(declared, {{"num_train_steps", text}}).find("a whole number") !=
                          std::string::npos,
                      text);
    for (const char* text : {"", "inf", "nan", "1,5", "1e400", "--1"})
        CHECK_MESSAGE(
            failure(declared, {{"learning_rate", text}}).find("a number") != std::string::npos,
            text);
}

TEST_CASE("flags are true or false in many spellings") {
    Options options;
    Hyperparameters declared = declare(options);
    for (const char* text : {"true", "True", "TRUE", "1", "yes", "on"}) {
        options.in_tokens = false;
        declared.read({{"in_tokens", text}});
        CHECK_MESSAGE(options.in_tokens, text);
    }
    for (const char* text : {"false", "False", "0", "no", "off"}) {
        options.in_tokens = true;
        declared.read({{"in_tokens", text}});
        CHECK_MESSAGE(!options.in_tokens, text);
    }
    CHECK(failure(declared, {{"in_tokens", "2"}}) ==
          "demo: a hyperparameter that cannot be used: in_tokens is \"2\"; true or false is "
          "expected");
}

TEST_CASE("all problems are told at once and nothing is set") {
    Options options;
    Hyperparameters declared = declare(options);
    const std::string text = failure(declared, {{"num_train_step", "3"},
                                                {"learning_rate", "0"},
                                                {"dropout", "1"},
                                                {"schedule", "cosine"},
                                                {"in_tokens", "true"},
                                                {"qqqqqqqqqq", "1"}});
    CHECK(text.starts_with("demo: 5 hyperparameters that cannot be used: "));
    CHECK(text.find("\"num_train_step\" is unknown; did you mean num_train_steps?") !=
          std::string::npos);
    CHECK(text.find("learning_rate is \"0\"; it must be above 0") != std::string::npos);
    CHECK(text.find("dropout is \"1\"; it must be at least 0 and below 1") != std::string::npos);
    CHECK(text.find("schedule is \"cosine\"; one of linear, noam is expected") !=
          std::string::npos);
    CHECK(text.find("\"qqqqqqqqqq\" is unknown") != std::string::npos);
    CHECK_FALSE(options.in_tokens);
}

TEST_CASE("a name and its alias may not contradict each other") {
    Options options;
    Hyperparameters declared = declare(options);
    CHECK(failure(declared, {{"lr", "1"}, {"learning_rate", "2"}})
              .find("learning_rate and lr are the same and differ") != std::string::npos);
    CHECK(failure(declared, {{"lr", "2"}, {"learning_rate", "2"}}) == "none");
}

TEST_CASE("hostile sizes are shortened in messages and cost no time") {
    Options options;
    Hyperparameters declared = declare(options);
    const std::string huge(1 << 20, 'x');
    CHECK(failure(declared, {{huge, "1"}, {"dropout", huge}}).size() < 600);
}

TEST_CASE("the declaration describes itself") {
    Options options;
    Hyperparameters declared = declare(options);
    const auto rows = declared.describe();
    REQUIRE(rows.size() == 8);
    CHECK(rows[1].name == "learning_rate");
    CHECK(rows[1].standard == "0.0001");
    CHECK(rows[1].allowed == "above 0");
    CHECK(rows[6].ignored);
    CHECK(rows[7].name == "lr");
    CHECK(rows[7].alias_of == "learning_rate");
    CHECK(declared.to_json().find("\"default\": \"0.0001\"") != std::string::npos);
    CHECK(declared.help().find("--lr") != std::string::npos);
}

TEST_CASE("the nearest names come first, far ones not at all") {
    const std::vector<std::string> known = {"batch_size", "beta1", "beta2", "num_train_steps"};
    CHECK(nearest("bach_size", known, 2) == std::vector<std::string>{"batch_size"});
    CHECK(nearest("beta3", known, 2) == std::vector<std::string>{"beta1", "beta2"});
    CHECK(nearest("train_steps", known, 2) == std::vector<std::string>{"num_train_steps"});
    CHECK(nearest("gamma_of_something", known, 2).empty());
}
