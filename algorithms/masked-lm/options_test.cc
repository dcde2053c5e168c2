// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/options.h"

#include "common/base/config_groups.h"
#include "common/base/error.h"
#include "masked-lm/journal.h"
#include "masked-lm/test_files.h"

#include <doctest/doctest.h>

using namespace alg;
using alg::test::Folder;

namespace {

template <typename Call>
std::string failure(Call&& call) {
    try {
        call();
    } catch (const Failure& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("the article's seventeen hyperparameters are taken as they are") {
    Options options;
    Hyperparameters declared = declare(options);
    declared.read({{"use_cuda", "true"},
                   {"is_distributed", "false"},
                   {"use_fast_executor", "true"},
                   {"weight_sharing", "true"},
                   {"in_tokens", "true"},
                   {"use_fp16", "false"},
                   {"batch_size", "4096"},
                   {"max_seq_len", "512"},
                   {"num_train_steps", "60"},
                   {"skip_steps", "5"},
                   {"save_steps", "20"},
                   {"validation_steps", "15"},
                   {"learning_rate", "2e-3"},
                   {"weight_decay", "0.01"},
                   {"vocab_path", "/opt/ml/input/data/train/vocab.txt"},
                   {"ernie_config_path", "./config/ernie_config.json"},
                   {"checkpoints", "/opt/ml/model"}});
    CHECK(options.batch_size == 4096);
    CHECK(options.learning_rate == doctest::Approx(2e-3));
    CHECK(options.checkpoints == "/opt/ml/model");
    CHECK(options.warmup() == 6);
}

TEST_CASE("the warm-up is the original's unless training is short") {
    Options options;
    CHECK(options.warmup() == 5000);
    options.num_train_steps = 400;
    CHECK(options.warmup() == 40);
    options.warmup_steps = 0;
    CHECK(options.warmup() == 0);
}

TEST_CASE("files are found as given, else by their base names in the train channel") {
    const Folder folder;
    folder.text("train/vocab.txt", "");
    folder.text("train/ernie_config.json", "{}");
    folder.text("train/train_filelist", "");
    folder.text("train/other_list", "");
    Contract contract;
    contract.channels["train"] = folder.path() / "train";
    Options options;
    options.vocab_path = "/somewhere/else/vocab.txt";
    options.ernie_config_path = "./config/ernie_config.json";
    Inputs inputs = find_inputs(options, contract);
    CHECK(inputs.vocabulary == folder.path() / "train/vocab.txt");
    CHECK(inputs.config == folder.path() / "train/ernie_config.json");
    CHECK(inputs.train_list == folder.path() / "train/train_filelist");
    CHECK(inputs.valid_list.empty());
    options.train_filelist = "./data/other_list";
    CHECK(find_inputs(options, contract).train_list == folder.path() / "train/other_list");
    options.vocab_path = "words.txt";
    CHECK(failure([&] {
              find_inputs(options, contract);
          }).starts_with("vocab_path: words.txt is neither there nor"));
    options.vocab_path.clear();
    options.ernie_config_path = "none.json";
    CHECK(find_inputs(options, contract).config.empty());
    contract.channels["valid"] = folder.path();
    CHECK(failure([&] {
              find_inputs(options, contract);
          }).starts_with("file list valid_filelist is neither there nor"));
    options.init_checkpoint = "weights.pt";
    options.valid_filelist = "train/train_filelist";
    CHECK(failure([&] {
              find_inputs(options, contract);
          }).starts_with("init_checkpoint: weights.pt is neither there"));
    contract.channels["model"] = folder.path();
    folder.text("weights.pt", "");
    CHECK(find_inputs(options, contract).start == folder.path() / "weights.pt");
}

TEST_CASE("every choice of the configuration groups is valid") {
    const fs::path folder = "algorithms/masked-lm/config";
    if (!fs::exists(folder / "config.yaml")) return;  // not started in the repository's root
    for (const char* group : {"model", "schedule"}) {
        for (const auto& file : fs::directory_iterator(folder / group)) {
            const std::string choice = format("{}={}", group, file.path().stem().string());
            Options options;
            Hyperparameters declared = declare(options);
            CHECK_NOTHROW(declared.read(compose(folder, "config", {choice}).values));
        }
    }
}
