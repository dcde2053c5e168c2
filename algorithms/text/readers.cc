// SPDX-License-Identifier: Apache-2.0
#include "text/readers.h"

#include "common/base/error.h"
#include "text/columns.h"
#include "text/lines.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace alg {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFile = std::size_t{4} << 30;  // of csv, which is read whole
constexpr std::size_t kLooked = 200;                        // records that tell the columns

using Fields = std::vector<std::string>;

/// The name without ".gz".
std::string plain_name(const fs::path& file) {
    const std::string name = lower(file.filename().string());
    return name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
}

std::string format_of_name(const fs::path& file) {
    const std::string name = plain_name(file);
    for (const auto& [ending, format] : {std::pair{".csv", "csv"},
                                         {".tsv", "tsv"},
                                         {".jsonl", "jsonl"},
                                         {".json", "jsonl"},
                                         {".ndjson", "jsonl"}})
        if (name.ends_with(ending)) return format;
    return "";
}

std::string format_of_content(const fs::path& file) {
    LineReader reader(file, kLongestRecord);
    std::string line;
    while (reader.next(line) && lower(line).empty()) {
    }
    if (lower(line).starts_with("{")) return "jsonl";
    if (line.find('\t') != std::string::npos) return "tsv";
    if (line.find(',') != std::string::npos) return "csv";
    fail(
        "{}: is neither csv, tsv nor JSON lines; name the file .csv, .tsv or .jsonl, or put texts "
        "into a folder per class",
        file.string());
}

/// Files that lie beside data and are none.
bool is_hidden(const fs::path& path) {
    constexpr std::array kNone = {"vocab.txt",         "labels.txt",     "config.json",
                                  "ernie_config.json", "tokenizer.json", "tokenizer_config.json"};
    const std::string name = path.filename().string();
    return name.starts_with(".") || name.starts_with("_") || lower(name).starts_with("readme") ||
           std::find(kNone.begin(), kNone.end(), name) != kNone.end();
}

std::vector<fs::path> entries(const fs::path& folder, bool folders) {
    std::vector<fs::path> result;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        if ((folders ? entry.is_directory() : entry.is_regular_file()) && !is_hidden(entry.path()))
            result.push_back(entry.path());
    std::sort(result.begin(), result.end());
    return result;
}

std::vector<fs::path> texts_in(const fs::path& folder) {
    std::vector<fs::path> result = entries(folder, false);
    std::erase_if(result, [](const fs::path& p) { return !plain_name(p).ends_with(".txt"); });
    return result;
}

class TableReader {
public:
    TableReader(const ReadOptions& options, RawSamples& result, SkipLog& skipped)
        : options_(options), result_(result), skipped_(skipped) {}

    void read_csv(const fs::path& file) {
        const std::string text = read_text(file, kLongestFile);
        const auto rows = [&](const auto& use) {
            std::size_t at = 0;
            std::int64_t line = 1;
            for (CsvRecord record; next_csv(text, at, line, record);) {
                if (record.open_quote)
                    fail(
                        "{}:{}: a quote opened in this record is never closed; double quotes that "
                        "belong to the text",
                        file.string(), record.line);
                if (!use(record.fields, record.line, false)) return;
            }
        };
        read_rows(file, rows);
    }
    void read_tsv(const fs::path& file) {
        const auto rows = [&](const auto& use) {
            LineReader reader(file, kLongestRecord);
            Fields fields;
            for (std::string line; reader.next(line);) {
                if (line.empty()) continue;
                fields.assign(1, "");
                for (const char c : line)
                    if (c == '\t')
                        fields.emplace_back();
                    else
                        fields.back() += c;
                if (!use(fields, reader.number(), reader.cut())) return;
            }
        };
        read_rows(file, rows);
    }
    void read_jsonl(const fs::path& file) {
        start(file);
        LineReader reader(file, kLongestRecord);
        for (std::string line; reader.next(line);) {
            if (lower(line).empty()) continue;
            ++result_.records;
            json_sample(line, reader.number(), reader.cut());
        }
    }

private:
    void start(const fs::path& file) { result_.files.push_back(file.string()); }
    std::string where(std::int64_t line) const {
        return format("{}:{}", result_.files.back(), line);
    }
    void add(RawSample sample, std::int64_t line) {
        sample.file = static_cast<std::int32_t>(result_.files.size() - 1);
        sample.line = line;
        if (sample.text.size() + sample.text_b.size() > kLongestRecord) {
            skipped_.skip("over-long records", where(line),
                          format("more than {} bytes", kLongestRecord));
            return;
        }
        result_.samples.push_back(std::move(sample));
    }

    template <typename Rows>
    void read_rows(const fs::path& file, const Rows& rows) {
        start(file);
        std::vector<Fields> first;
        rows([&](const Fields& fields, std::int64_t, bool) {
            first.push_back(fields);
            return first.size() < kLooked;
        });
        if (first.empty()) return;
        const Columns columns = find_columns(first, options_, file.string());
        if (columns.second) result_.pairs = true;
        bool header = columns.header;
        rows([&](Fields& fields, std::int64_t line, bool cut) {
            if (std::exchange(header, false)) return true;
            ++result_.records;
            if (cut) {
                skipped_.skip("over-long records", where(line),
                              format("more than {} bytes", kLongestRecord));
            } else if (fields.size() != columns.count) {
                skipped_.skip("records with another number of fields", where(line),
                              format("{} fields instead of {}", fields.size(), columns.count));
            } else {
                RawSample sample;
                sample.label = trimmed(fields[columns.label]);
                sample.text = std::move(fields[columns.text]);
                if (columns.second) sample.text_b = std::move(fields[*columns.second]);
                add(std::move(sample), line);
            }
            return true;
        });
    }

    void json_sample(const std::string& line, std::int64_t number, bool cut) {
        if (cut) {
            skipped_.skip("over-long records", where(number),
                          format("more than {} bytes", kLongestRecord));
            return;
        }
        const auto parsed = nlohmann::json::parse(line, nullptr, false);
        if (!parsed.is_object()) {
            skipped_.skip("lines that are no JSON object", where(number), line.substr(0, 60));
            return;
        }
        const auto member = [&](const std::string& wanted, const auto& names) {
            if (!wanted.empty()) return parsed.find(wanted);
            for (const char* name : names)
                if (const auto found = parsed.find(name); found != parsed.end()) return found;
            return parsed.end();
        };
        const auto text = member(options_.text_column, kTextNames);
        const auto label = member(options_.label_column, kLabelNames);
        const auto second = member(options_.text_b_column, kSecondNames);
        if (text == parsed.end() || !text->is_string()) {
            skipped_.skip("records without a text", where(number), "no text_column that is text");
            return;
        }
        if (label == parsed.end() ||
            !(label->is_string() || label->is_number_integer() || label->is_boolean())) {
            skipped_.skip("records without a label", where(number),
                          "no label_column that is text or an integer");
            return;
        }
        RawSample sample;
        sample.text = text->get<std::string>();
        sample.label = label->is_string()    ? trimmed(label->get<std::string>())
                       : label->is_boolean() ? (label->get<bool>() ? "1" : "0")
                                             : std::to_string(label->get<std::int64_t>());
        if (second != parsed.end() && second->is_string()) {
            sample.text_b = second->get<std::string>();
            result_.pairs = true;
        }
        add(std::move(sample), number);
    }

    const ReadOptions& options_;
    RawSamples& result_;
    SkipLog& skipped_;
};

void read_folders(const fs::path& folder, RawSamples& result, SkipLog& skipped) {
    for (const fs::path& label : entries(folder, true)) {
        for (const fs::path& file : texts_in(label)) {
            ++result.records;
            RawSample sample;
            sample.label = label.filename().string();
            std::error_code ignored;
            if (fs::file_size(file, ignored) > kLongestRecord) {
                skipped.skip("over-long records", file.string(),
                             format("more than {} bytes", kLongestRecord));
                continue;
            }
            sample.text = read_text(file, kLongestRecord * 16);
            sample.file = static_cast<std::int32_t>(result.files.size());
            result.files.push_back(file.string());
            result.samples.push_back(std::move(sample));
        }
    }
}

/// One format for the whole channel.
std::string format_of(const fs::path& folder, const std::vector<fs::path>& files,
                      const std::string& wanted) {
    if (wanted != "auto") return wanted;
    std::map<std::string, fs::path> seen;
    for (const fs::path& file : files)
        if (const std::string format = format_of_name(file); !format.empty())
            seen.emplace(format, file);
    for (const fs::path& label : entries(folder, true))
        if (const auto texts = texts_in(label); !texts.empty()) {
            seen.emplace("folders", texts.front());
            break;
        }
    if (seen.empty())
        for (const fs::path& file : files) seen.emplace(format_of_content(file), file);
    if (seen.empty())
        fail(
            "{}: holds no data; give .csv, .tsv or .jsonl files or a folder of .txt files per "
            "class",
            folder.string());
    if (seen.size() > 1)
        fail("{}: holds several formats, {} ({}) and {} ({}); one channel has one, or set format",
             folder.string(), seen.begin()->second.filename().string(), seen.begin()->first,
             std::next(seen.begin())->second.filename().string(), std::next(seen.begin())->first);
    return seen.begin()->first;
}

std::optional<std::int64_t> integer(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

}  // namespace

std::string RawSamples::where(const RawSample& sample) const {
    const std::string& file = files[static_cast<std::size_t>(sample.file)];
    return sample.line > 0 ? alg::format("{}:{}", file, sample.line) : file;
}

bool next_csv(std::string_view text, std::size_t& at, std::int64_t& line, CsvRecord& record) {
    while (at < text.size() && (text[at] == '\n' || text[at] == '\r')) line += text[at++] == '\n';
    if (at >= text.size()) return false;
    record.fields.assign(1, "");
    record.line = line;
    record.open_quote = false;
    bool quoted = false;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (quoted) {
            if (c == '\n') ++line;
            if (c != '"')
                record.fields.back() += c;
            else if (at + 1 < text.size() && text[at + 1] == '"')
                record.fields.back() += text[++at];
            else
                quoted = false;
        } else if (c == '"' && record.fields.back().empty()) {
            quoted = true;
        } else if (c == ',') {
            record.fields.emplace_back();
        } else if (c == '\n') {
            ++line;
            ++at;
            break;
        } else if (c != '\r' || at + 1 >= text.size() || text[at + 1] != '\n') {
            record.fields.back() += c;
        }
    }
    record.open_quote = quoted;
    return true;
}

RawSamples read_samples(const fs::path& folder, const ReadOptions& options, SkipLog& skipped) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) fail("{}: is no folder", folder.string());
    RawSamples result;
    std::vector<fs::path> files = entries(folder, false);
    result.format = format_of(folder, files, options.format);
    if (result.format == "folders") {
        read_folders(folder, result, skipped);
    } else {
        const bool by_name = std::any_of(files.begin(), files.end(), [](const fs::path& file) {
            return !format_of_name(file).empty();
        });
        if (options.format == "auto" && by_name)
            std::erase_if(files, [&](const fs::path& f) { return format_of_name(f).empty(); });
        TableReader reader(options, result, skipped);
        for (const fs::path& file : files) {
            if (result.format == "csv") reader.read_csv(file);
            if (result.format == "tsv") reader.read_tsv(file);
            if (result.format == "jsonl") reader.read_jsonl(file);
        }
    }
    if (result.samples.empty())
        fail("{}: none of its {} records can be used; the warnings above say why", folder.string(),
             result.records);
    return result;
}

std::vector<std::string> label_names(const RawSamples& samples, const std::string& given) {
    std::vector<std::string> names;
    if (!given.empty()) {
        for (std::size_t at = 0; at <= given.size();) {
            const std::size_t comma = std::min(given.find(',', at), given.size());
            std::string name = given.substr(at, comma - at);
            name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
            name.erase(name.find_last_not_of(' ') + 1);
            if (name.empty() || std::find(names.begin(), names.end(), name) != names.end())
                fail("labels: \"{}\" must be different names separated by commas", given);
            names.push_back(name);
            at = comma + 1;
        }
        return names;
    }
    std::set<std::string> found;
    for (const RawSample& sample : samples.samples) found.insert(sample.label);
    names.assign(found.begin(), found.end());
    const bool integers = std::all_of(names.begin(), names.end(),
                                      [](const std::string& name) { return integer(name); });
    if (!integers) return names;
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return std::pair(*integer(a), a) < std::pair(*integer(b), b);
    });
    const std::int64_t largest = *integer(names.back());
    if (*integer(names.front()) < 0 || largest >= 2 * static_cast<std::int64_t>(names.size()))
        return names;
    names.clear();
    for (std::int64_t i = 0; i <= largest; ++i) names.push_back(std::to_string(i));
    return names;
}

std::vector<std::int32_t> label_ids(RawSamples& samples, const std::vector<std::string>& names,
                                    SkipLog& skipped) {
    std::map<std::string, std::int32_t> ids;
    for (const std::string& name : names) ids.emplace(name, static_cast<std::int32_t>(ids.size()));
    std::vector<std::int32_t> result;
    std::erase_if(samples.samples, [&](const RawSample& sample) {
        auto found = ids.find(sample.label);
        if (const auto value = integer(sample.label); found == ids.end() && value)
            found = ids.find(std::to_string(*value));  // "01"
        if (found == ids.end()) {
            skipped.skip(
                "labels out of range", samples.where(sample),
                format("label \"{:.40}\" is none of the {} classes", sample.label, names.size()));
            return true;
        }
        result.push_back(found->second);
        return false;
    });
    if (result.empty()) fail("no sample has one of the {} labels", names.size());
    return result;
}

}  // namespace alg
