// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/make_data.h"

#include "common/base/error.h"
#include "common/files/atomic_file.h"
#include "text/lines.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <zlib.h>

namespace alg {

namespace fs = std::filesystem;

namespace {

using Document = std::vector<Segmented>;

void join(Segmented& into, const Segmented& more) {
    into.tokens.insert(into.tokens.end(), more.tokens.begin(), more.tokens.end());
    into.units.insert(into.units.end(), more.units.begin(), more.units.end());
}

/// Cuts the longer one at its end until both fit.
void trim(Segmented& a, Segmented& b, std::size_t most) {
    while (a.tokens.size() + b.tokens.size() > most) {
        Segmented& longer = a.tokens.size() > b.tokens.size() ? a : b;
        longer.tokens.pop_back();
        longer.units.pop_back();
    }
}

std::string line_of(const Segmented& a, const Segmented& b, bool follows,
                    const MakeOptions& options) {
    std::string tokens, types, positions, units;
    std::size_t count = 0;
    const auto add = [&](std::int64_t token, int type, int unit) {
        const char* space = count == 0 ? "" : " ";
        tokens += format("{}{}", space, token);
        types += format("{}{}", space, type);
        positions += format("{}{}", space, count);
        units += format("{}{}", space, unit);
        ++count;
    };
    add(options.cls, 0, -1);
    for (std::size_t i = 0; i < a.tokens.size(); ++i) add(a.tokens[i], 0, a.units[i]);
    add(options.sep, 0, -1);
    for (std::size_t i = 0; i < b.tokens.size(); ++i) add(b.tokens[i], 1, b.units[i]);
    add(options.sep, 1, -1);
    return format("{};{};{};{};{}\n", tokens, types, positions, units, follows ? 1 : 0);
}

/// Sentences from `first` on until there are `most` tokens.
Segmented sentences_from(const Document& document, std::size_t first, std::size_t most) {
    Segmented result;
    for (std::size_t i = first; i < document.size() && result.tokens.size() < most; ++i)
        join(result, document[i]);
    return result;
}

class Output {
public:
    Output(fs::path folder, std::string name, const MakeOptions& options)
        : folder_(std::move(folder)), name_(std::move(name)), options_(options) {}

    void add(std::string line) {
        lines_.push_back(std::move(line));
        ++samples_;
        if (static_cast<std::int64_t>(lines_.size()) >= options_.file_samples) flush();
    }
    void flush() {
        if (lines_.empty()) return;
        const std::string name = format("{}-{:05}.gz", name_, files_++);
        write_atomically(folder_ / name, [&](const fs::path& to) {
            const gzFile file = gzopen(to.c_str(), "wbe6");
            if (file == nullptr) fail("{}: {}", to.string(), std::strerror(errno));
            bool good = true;
            for (const std::string& line : lines_)
                good = good && gzwrite(file, line.data(), static_cast<unsigned>(line.size())) ==
                                   static_cast<int>(line.size());
            good = gzclose(file) == Z_OK && good;
            if (!good) fail("{}: cannot be written: {}", to.string(), std::strerror(errno));
        });
        list_ += format("{}\t{}\n", name, options_.mask_word_prob);
        lines_.clear();
    }
    void finish() {
        flush();
        write_text_atomically(folder_ / (name_ + "_filelist"), list_);
    }
    std::int64_t files() const { return files_; }
    std::int64_t samples() const { return samples_; }

private:
    const fs::path folder_;
    const std::string name_;
    const MakeOptions& options_;
    std::vector<std::string> lines_;
    std::string list_;
    std::int64_t files_ = 0, samples_ = 0;
};

}  // namespace

Pairs pairs_of(const std::vector<Document>& documents, const MakeOptions& options, Random random) {
    Pairs pairs;
    const auto most = static_cast<std::size_t>(options.longest) - 3;
    for (std::size_t d = 0; d < documents.size(); ++d) {
        const Document& document = documents[d];
        const std::size_t before = pairs.lines.size();
        for (std::size_t first = 0; first + 1 < document.size();) {
            // As many sentences as fit, at least two.
            std::size_t end = first + 1, tokens = document[first].tokens.size();
            while (end < document.size() && (end < first + 2 || tokens < most))
                tokens += document[end++].tokens.size();
            const std::size_t split = first + 1 + random.below(end - first - 1);
            Segmented a, b;
            for (std::size_t i = first; i < split; ++i) join(a, document[i]);
            const bool follows =
                !options.negatives || documents.size() < 2 || random.uniform() < 0.5F;
            if (follows) {
                for (std::size_t i = split; i < end; ++i) join(b, document[i]);
                first = end;
            } else {
                std::size_t other = random.below(documents.size() - 1);
                if (other >= d) ++other;
                const std::size_t left = most - std::min(most - 1, a.tokens.size());
                b = sentences_from(documents[other], random.below(documents[other].size()), left);
                first = split;  // what was not used begins the next pair
            }
            trim(a, b, most);
            if (!a.tokens.empty() && !b.tokens.empty())
                pairs.lines.push_back(line_of(a, b, follows, options));
        }
        if (pairs.lines.size() == before) ++pairs.single;
    }
    return pairs;
}

MakeReport make_data(const std::vector<fs::path>& texts, const fs::path& folder,
                     const std::string& name, const WordPiece& pieces, const Segmentation& how,
                     const MakeOptions& options) {
    MakeReport report;
    Output output(folder, name, options);
    std::vector<Document> documents(1);
    std::uint64_t chunk = 0;
    const auto make = [&] {
        std::erase_if(documents, [](const Document& document) { return document.empty(); });
        report.documents += static_cast<std::int64_t>(documents.size());
        Pairs pairs = pairs_of(documents, options, Random(key_of(options.seed, chunk++)));
        report.single += pairs.single;
        for (std::string& line : pairs.lines) output.add(std::move(line));
        documents.assign(1, {});
    };
    for (const fs::path& text : texts) {
        LineReader lines(text);
        std::string line;
        if (!documents.back().empty()) documents.emplace_back();
        while (lines.next(line)) {
            if (line.find_first_not_of(" \t\r") == std::string::npos) {
                if (documents.back().empty()) continue;
                if (static_cast<std::int64_t>(documents.size()) >= options.chunk_documents)
                    make();
                else
                    documents.emplace_back();
                continue;
            }
            for (const std::string_view sentence : sentences_of(line)) {
                Segmented segmented = segment(sentence, pieces, how);
                if (segmented.tokens.empty()) continue;
                ++report.sentences;
                report.tokens += static_cast<std::int64_t>(segmented.tokens.size());
                documents.back().push_back(std::move(segmented));
            }
        }
    }
    make();
    if (output.samples() == 0)
        fail(
            "no sample came of {} documents with {} sentences; a document needs two sentences, and "
            "blank lines separate documents",
            report.documents, report.sentences);
    output.finish();
    report.files = output.files();
    report.samples = output.samples();
    return report;
}

}  // namespace alg
