// SPDX-License-Identifier: Apache-2.0
// Files for pre-training made of raw text: sentence pairs as the reader expects them.
#pragma once

#include "common/base/random.h"
#include "masked-lm/segmenter.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace alg {

struct MakeOptions {
    std::int64_t longest = 512;  ///< tokens of a sample
    bool negatives = true;       ///< half of the pairs are false ones; else all are true
    std::int64_t file_samples = 10'000;
    std::int64_t chunk_documents =
        10'000;  ///< held in memory; false pairs come from the same chunk
    double mask_word_prob = 1.1;
    std::uint64_t seed = 1;
    std::int64_t cls = 1, sep = 2;
};

/// The lines of `documents` (sentences of each, in order), in the order of the documents. A
/// document of one sentence can only give its sentence to a false pair.
struct Pairs {
    std::vector<std::string> lines;
    std::int64_t single = 0;  ///< documents that gave no sample of their own
};
Pairs pairs_of(const std::vector<std::vector<Segmented>>& documents, const MakeOptions& options,
               Random random);

struct MakeReport {
    std::int64_t documents = 0, sentences = 0, tokens = 0, samples = 0, files = 0, single = 0;
};
/// Reads `texts` (plain or gzip; documents separated by blank lines), writes
/// <folder>/<name>-00000.gz … and <folder>/<name>_filelist, which is the last to appear: files are
/// whole or not there. Throws Failure when there is nothing to write.
MakeReport make_data(const std::vector<std::filesystem::path>& texts,
                     const std::filesystem::path& folder, const std::string& name,
                     const WordPiece& pieces, const Segmentation& how, const MakeOptions& options);

}  // namespace alg
