// SPDX-License-Identifier: Apache-2.0
// For the comparison with Hugging Face's tokenizer: wordpiece_ids VOCABULARY cased|uncased LONGEST.
// Reads pairs from stdin, each text as a 4-byte length and its bytes (length -1: no second text);
// writes a 4-byte number of ids, where the second text begins, and the ids, for each.
#include "common/base/error.h"
#include "text/wordpiece.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool read_text(std::string& text, bool& absent) {
    std::int32_t size = 0;
    if (std::fread(&size, sizeof size, 1, stdin) != 1) return false;
    absent = size < 0;
    text.resize(absent ? 0 : static_cast<std::size_t>(size));
    return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

void run(const char* vocabulary, bool lower_case, std::size_t longest) {
    const alg::WordPiece tokenizer(alg::Vocabulary::read(vocabulary), {.lower_case = lower_case});
    std::string a, b;
    bool none = false;
    while (read_text(a, none) && read_text(b, none)) {
        const auto encoded = tokenizer.encode_pair(a, b, !none, longest);
        const auto size = static_cast<std::int32_t>(encoded.ids.size());
        std::fwrite(&size, sizeof size, 1, stdout);
        std::fwrite(&encoded.second, sizeof encoded.second, 1, stdout);
        std::fwrite(encoded.ids.data(), sizeof(std::int32_t), encoded.ids.size(), stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    try {
        run(argv[1], std::string_view(argv[2]) == "uncased",
            static_cast<std::size_t>(std::atoll(argv[3])));
    } catch (const alg::Failure& failure) {
        std::fprintf(stderr, "wordpiece_ids: %s\n", failure.what());
        return 1;
    }
    return 0;
}
