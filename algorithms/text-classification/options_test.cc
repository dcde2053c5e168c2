// SPDX-License-Identifier: Apache-2.0
#include "text-classification/options.h"
#include "common/base/error.h"
#include "common/files/unpack.h"

#include <doctest/doctest.h>

#include <cstdio>

using namespace alg;

TEST_CASE("the article's and Hugging Face's names mean the same") {
    Options options;
    Hyperparameters declared = declare(options);
    declared.read(
        {{"train_batch_size", "16"}, {"epochs", "3"}, {"lr", "1e-4"}, {"max_seq_length", "64"}});
    CHECK(options.batch_size == 16);
    CHECK(options.epochs == 3);
    CHECK(options.learning_rate == doctest::Approx(1e-4));
    CHECK(options.max_length == 64);
    CHECK_THROWS_WITH_AS(declared.read({{"learning_rat", "1"}}), doctest::Contains("learning_rate"),
                         Failure);
}

TEST_CASE("channels go by several names, but only one at a time") {
    TemporaryFolder folder;
    Contract contract;
    Options options;
    contract.channels = {{"train", folder.path()}, {"validation", folder.path()}};
    CHECK(find_inputs(options, contract).valid == folder.path());
    CHECK(find_inputs(options, contract).start.empty());
    contract.channels["valid"] = folder.path();
    CHECK_THROWS_WITH_AS(find_inputs(options, contract), doctest::Contains("mean the same"),
                         Failure);
}

TEST_CASE("a start is a folder, an archive in it, or refused") {
    TemporaryFolder folder;
    Contract contract;
    Options options;
    contract.channels = {{"train", folder.path()}, {"model", folder.path()}};
    CHECK_THROWS_WITH_AS(find_inputs(options, contract),
                         doctest::Contains("neither config.json nor one"), Failure);
    std::fclose(std::fopen((folder.path() / "model.tar.gz").c_str(), "w"));
    CHECK(find_inputs(options, contract).start == folder.path() / "model.tar.gz");
    std::fclose(std::fopen((folder.path() / "config.json").c_str(), "w"));
    CHECK(find_inputs(options, contract).start == folder.path());
    contract.channels.erase("model");
    options.model_name_or_path = "bert-base-uncased";
    CHECK_THROWS_WITH_AS(find_inputs(options, contract), doctest::Contains("nothing is downloaded"),
                         Failure);
}
