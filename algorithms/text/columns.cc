// SPDX-License-Identifier: Apache-2.0
#include "text/columns.h"

#include "common/base/error.h"

#include <algorithm>
#include <charconv>

namespace alg {

namespace {

using Fields = std::vector<std::string>;

template <typename Names>
std::optional<std::size_t> known(const Fields& header, const Names& names) {
    for (const char* name : names)
        for (std::size_t i = 0; i < header.size(); ++i)
            if (lower(header[i]) == name) return i;
    return std::nullopt;
}

std::optional<std::size_t> number_of(const std::string& column) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), value);
    if (error != std::errc() || end != column.data() + column.size()) return std::nullopt;
    return value;
}

std::string joined(const Fields& fields) {
    std::string result;
    for (const std::string& field : fields)
        result += (result.empty() ? "" : ", ") + field.substr(0, 40);
    return result;
}
/// No header: two or three columns, of which the label is the shortest.
Columns guessed(const std::vector<Fields>& rows, const std::string& file) {
    const std::size_t count = rows.front().size();
    if (count < 2 || count > 3)
        fail(
            "{}: has {} columns and no header with known names; set text_column and "
            "label_column to numbers from 0",
            file, count);
    std::array<std::size_t, 3> bytes{};
    for (const Fields& row : rows)
        for (std::size_t i = 0; i < std::min(count, row.size()); ++i) bytes[i] += row[i].size();
    Columns columns{.count = count};
    columns.label = static_cast<std::size_t>(
        std::min_element(bytes.begin(), bytes.begin() + std::ptrdiff_t(count)) - bytes.begin());
    columns.text = columns.label == 0 ? 1 : 0;
    if (count == 3) columns.second = 3 - columns.label - columns.text;
    return columns;
}

}  // namespace

std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == std::string::npos) return "";
    return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::string lower(std::string_view text) {
    std::string result = trimmed(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

Columns find_columns(const std::vector<Fields>& rows, const ReadOptions& options,
                     const std::string& file) {
    const Fields& top = rows.front();
    Columns columns{.count = top.size()};
    const auto text = known(top, kTextNames), label = known(top, kLabelNames);
    const bool named = !options.text_column.empty() || !options.label_column.empty();
    if (!named && !(text && label)) return guessed(rows, file);
    const auto pick = [&](const std::string& wanted, std::optional<std::size_t> usual,
                          const char* parameter) {
        std::optional<std::size_t> found = usual;
        if (!wanted.empty()) {
            const auto at = std::find(top.begin(), top.end(), wanted);
            found =
                at != top.end() ? std::optional(std::size_t(at - top.begin())) : number_of(wanted);
            if (at != top.end()) columns.header = true;
        }
        if (!found || *found >= top.size())
            fail("{}: there is no column {}; its first line has: {}; set {}", file,
                 wanted.empty() ? "known by name" : "\"" + wanted + "\"",
                 fmt::to_string(joined(top)), parameter);
        return *found;
    };
    columns.header = text && label;
    columns.text = pick(options.text_column, text, "text_column");
    columns.label = pick(options.label_column, label, "label_column");
    const auto second = known(top, kSecondNames);
    if (!options.text_b_column.empty() || second)
        columns.second = pick(options.text_b_column, second, "text_b_column");
    return columns;
}

}  // namespace alg
