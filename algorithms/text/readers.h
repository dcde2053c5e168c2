// SPDX-License-Identifier: Apache-2.0
// Labelled texts from a channel: csv, tsv, JSON lines, or a folder per class; each plain or gzip,
// UTF-8 with or without a byte order mark. What cannot be used is skipped with file and line.
#pragma once

#include "common/base/log.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace alg {

/// Records, and texts of a folder per class, longer than this are skipped.
constexpr std::size_t kLongestRecord = std::size_t{1} << 20;

struct ReadOptions {
    /// "auto" (by the files' names, else by content), "csv", "tsv", "jsonl", "folders".
    std::string format = "auto";
    /// Names in the header (or keys), or numbers of columns from 0. Empty: found by usual names, or
    /// without a header by what the columns hold.
    std::string text_column, text_b_column, label_column;
};

struct RawSample {
    std::string text, text_b, label;
    std::int32_t file = 0;  ///< of RawSamples::files
    std::int64_t line = 0;
};

struct RawSamples {
    std::vector<RawSample> samples;  ///< files in the order of their names, then lines
    std::vector<std::string> files;
    std::int64_t records = 0;  ///< with those skipped
    bool pairs = false;        ///< there is a second text
    std::string format;

    std::string where(const RawSample& sample) const;  ///< "train/a.csv:12"
};

/// Throws Failure: no such folder, nothing readable or nothing usable in it, several formats in one
/// channel, columns that are not there, a quote that is never closed, a truncated gzip stream.
RawSamples read_samples(const std::filesystem::path& folder, const ReadOptions& options,
                        SkipLog& skipped);

/// The names of classes, in the order of their ids: `given` (comma-separated) where it is not
/// empty; else the labels there are: integers keep their value when they are about 0, 1, 2, …
/// (names[i] = "i"), others count in sorted order.
std::vector<std::string> label_names(const RawSamples& samples, const std::string& given);

/// Ids of the samples' labels; samples whose label is not among `names` are skipped and erased.
std::vector<std::int32_t> label_ids(RawSamples& samples, const std::vector<std::string>& names,
                                    SkipLog& skipped);

// The pieces read_samples() is made of.

/// Fields of one csv record that begins at `at` (RFC 4180: quotes may hold separators, line ends
/// and doubled quotes); moves behind its line end and counts lines. False at the end.
struct CsvRecord {
    std::vector<std::string> fields;
    std::int64_t line = 0;    ///< where it began
    bool open_quote = false;  ///< the text ended inside of quotes
};
bool next_csv(std::string_view text, std::size_t& at, std::int64_t& line, CsvRecord& record);

}  // namespace alg
