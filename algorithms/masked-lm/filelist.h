// SPDX-License-Identifier: Apache-2.0
// The list of a channel's files, and in which order and portions an epoch reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace alg {

struct ListedFile {
    std::filesystem::path path;
    std::string listed;         ///< as the list names it: what log lines show
    double mask_word_prob = 1;  ///< probability that a whole file is masked by word
    std::uintmax_t bytes = 0;   ///< on disk
};

/// `path` as it is given where it exists; else below `folder`; else its base name in `folder`.
/// Empty when there is none of these.
std::filesystem::path find_file(const std::string& path, const std::filesystem::path& folder);

/// Lines `path<TAB>mask_word_prob`. Throws one Failure naming every bad line and every file that is
/// not there; also for a list that names nothing.
std::vector<ListedFile> read_filelist(const std::filesystem::path& list,
                                      const std::filesystem::path& folder);

struct RoundOptions {
    std::uint64_t seed = 1;
    bool shuffle = true;
    int world = 1;
    /// Files are gathered until they have this many bytes on disk per rank, so that samples of many
    /// small files meet in a batch.
    std::uintmax_t bytes = std::uintmax_t{4} << 20;
};

/// A portion of an epoch: the files whose samples are in memory and are planned together.
struct FileRound {
    std::vector<int> files;  ///< numbers in the list
    std::vector<int> rank;   ///< whose file it is; all 0 when files are shared
    std::vector<int> place;  ///< in the epoch's order, from 1
};

/// Whether each rank reads files of its own: when there are enough of them.
inline bool files_are_sharded(std::size_t files, int world) {
    return world > 1 && files >= static_cast<std::size_t>(world);
}

/// The files of an epoch, shuffled, the p-th of them for rank p mod world when they are sharded.
std::vector<FileRound> rounds_of(const std::vector<ListedFile>& files, const RoundOptions& options,
                                 std::int64_t epoch);

}  // namespace alg
