// SPDX-License-Identifier: Apache-2.0
// masked-lm-data: makes files for pre-training from raw text.
//   masked-lm-data --input a.txt,b.txt.gz --vocab_path vocab.txt --output FOLDER [--name value…]
#include "common/base/error.h"
#include "common/base/hyperparameters.h"
#include "common/base/log.h"
#include "masked-lm/make_data.h"

#include <algorithm>
#include <cstdio>

using namespace alg;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> paths_of(const std::string& list) {
    std::vector<fs::path> paths;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) paths.emplace_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return paths;
}

std::map<std::string, std::string> arguments(int argc, const char* const* argv) {
    std::map<std::string, std::string> given;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (!argument.starts_with("--")) fail("\"{}\" is no option; see --help", argument);
        const std::size_t equals = argument.find('=');
        if (equals != std::string::npos)
            given[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
        else if (i + 1 < argc)
            given[argument.substr(2)] = argv[++i];
        else
            fail("option {} has no value", argument);
    }
    return given;
}

struct Texts {
    std::string input, vocab_path, output, name = "train", words, entities, phrases;
    bool segmented = true, lower_case = true;
    std::int64_t seed = 1;
};

Hyperparameters declare(Texts& texts, MakeOptions& make) {
    Hyperparameters declared("masked-lm-data");
    declared.text("input", &texts.input,
                  "text files, plain or gzip, separated by commas; blank lines separate documents");
    declared.text("vocab_path", &texts.vocab_path, "token<TAB>id, or one token a line");
    declared.text("output", &texts.output, "folder for the files and their list");
    declared.text("name", &texts.name, "files are <name>-00000.gz …, the list <name>_filelist");
    declared.flag("segmented", &texts.segmented, "white space in the text separates words");
    declared.text("words", &texts.words,
                  "word list, one a line, for text without spaces: longest match");
    declared.text("entities", &texts.entities, "entity lists: each entity is masked as one unit");
    declared.text("phrases", &texts.phrases, "phrase lists: the same");
    declared.flag("lower_case", &texts.lower_case, "as the vocabulary is");
    declared.integer("max_seq_len", &make.longest, {.at_least = 8, .at_most = 65536},
                     "tokens of a sample");
    declared.flag("negatives", &make.negatives,
                  "half of the pairs are false; else all are true, for generate_neg_sample");
    declared.integer("file_samples", &make.file_samples, {.at_least = 1}, "samples of a file");
    declared.integer("chunk_documents", &make.chunk_documents, {.at_least = 2},
                     "documents held in memory, among which false pairs are made");
    declared.number("mask_word_prob", &make.mask_word_prob, {.at_least = 0}, "as the list says it");
    declared.integer("seed", &texts.seed, {.at_least = 0}, "pairs follow from it");
    return declared;
}

int body(int argc, const char* const* argv) {
    Texts texts;
    MakeOptions make;
    Hyperparameters declared = declare(texts, make);
    if (answer_help(argc, argv, declared)) return 0;
    declared.read(arguments(argc, argv));
    if (texts.input.empty() || texts.vocab_path.empty() || texts.output.empty())
        fail("--input, --vocab_path and --output are needed; see --help");
    make.seed = static_cast<std::uint64_t>(texts.seed);
    const WordPiece pieces(Vocabulary::read(texts.vocab_path), {.lower_case = texts.lower_case});
    const auto special = [&](const char* token, std::int64_t& id) {
        if (pieces.vocabulary().id(token) < 0) fail("{} has no {}", texts.vocab_path, token);
        id = pieces.vocabulary().id(token);
    };
    special("[CLS]", make.cls);
    special("[SEP]", make.sep);
    Segmentation how{.spaces = texts.segmented};
    std::size_t listed = 0;
    for (const fs::path& file : paths_of(texts.words)) how.words.read(file, texts.lower_case);
    for (const std::string& list : {texts.entities, texts.phrases})
        for (const fs::path& file : paths_of(list))
            listed += how.entities.read(file, texts.lower_case);
    const MakeReport report =
        make_data(paths_of(texts.input), texts.output, texts.name, pieces, how, make);
    say("{} documents, {} sentences, {} tokens, {} entities and phrases", report.documents,
        report.sentences, report.tokens, listed);
    say("{} samples in {} files, {}/{}_filelist", report.samples, report.files, texts.output,
        texts.name);
    if (report.single > 0) say("{} documents gave no sample: one sentence only", report.single);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return body(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "masked-lm-data: %s\n", error.what());
        return 1;
    }
}
