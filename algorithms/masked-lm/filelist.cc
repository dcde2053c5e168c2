// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/filelist.h"

#include "common/base/error.h"
#include "common/base/random.h"
#include "masked-lm/purposes.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>

namespace alg {

namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rbe"),
                                                             &std::fclose);
    if (!in) fail("file list {}: cannot be opened", file.string());
    std::string text;
    char block[4096];
    while (const std::size_t count = std::fread(block, 1, sizeof block, in.get()))
        text.append(block, count);
    return text;
}

std::optional<double> probability(std::string_view text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
        return std::nullopt;
    return value;
}

bool is_file(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

}  // namespace

fs::path find_file(const std::string& path, const fs::path& folder) {
    if (path.empty()) return {};
    const fs::path given(path);
    if (given.is_absolute() && is_file(given)) return given;
    if (given.is_relative() && is_file(folder / given)) return folder / given;
    if (is_file(folder / given.filename())) return folder / given.filename();
    return is_file(given) ? given : fs::path();
}

std::vector<ListedFile> read_filelist(const fs::path& list, const fs::path& folder) {
    const std::string text = text_of(list);
    std::vector<ListedFile> files;
    std::string problems;
    int number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) end = text.size();
        const std::string line = text.substr(begin, end - begin);
        begin = end + 1;
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        const auto problem = [&](const std::string& what) {
            problems +=
                format("{}{}:{}: {}", problems.empty() ? "" : "; ", list.string(), number, what);
        };
        const std::size_t tab = line.find('\t');
        const auto share = tab == std::string::npos
                               ? std::nullopt
                               : probability(std::string_view(line).substr(tab + 1));
        if (!share) {
            problem(format("\"{}\" is not path<TAB>mask_word_prob", line.substr(0, 100)));
            continue;
        }
        ListedFile file{.listed = line.substr(0, tab), .mask_word_prob = *share};
        file.path = find_file(file.listed, folder);
        if (file.path.empty()) {
            problem(format("{} is not in {}, nor is {}", file.listed, folder.string(),
                           fs::path(file.listed).filename().string()));
            continue;
        }
        std::error_code error;
        file.bytes = fs::file_size(file.path, error);
        files.push_back(std::move(file));
    }
    if (!problems.empty()) throw Failure(problems);
    if (files.empty())
        fail("file list {} names no file; each line is path<TAB>mask_word_prob", list.string());
    return files;
}

std::vector<FileRound> rounds_of(const std::vector<ListedFile>& files, const RoundOptions& options,
                                 std::int64_t epoch) {
    std::vector<int> order(files.size());
    std::iota(order.begin(), order.end(), 0);
    if (options.shuffle)
        shuffle(order.begin(), order.end(), Random(key_of(options.seed, epoch, Purpose::files)));
    const bool sharded = files_are_sharded(files.size(), options.world);
    const std::size_t step = sharded ? static_cast<std::size_t>(options.world) : 1;
    std::vector<FileRound> rounds;
    std::uintmax_t bytes = 0;
    for (std::size_t p = 0; p < order.size(); ++p) {
        if (p % step == 0 && (rounds.empty() || bytes >= options.bytes * step)) {
            rounds.emplace_back();
            bytes = 0;
        }
        FileRound& round = rounds.back();
        round.files.push_back(order[p]);
        round.rank.push_back(sharded ? static_cast<int>(p % step) : 0);
        round.place.push_back(static_cast<int>(p + 1));
        bytes += files[static_cast<std::size_t>(order[p])].bytes;
    }
    return rounds;
}

}  // namespace alg
