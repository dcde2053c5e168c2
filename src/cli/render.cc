// SPDX-License-Identifier: Apache-2.0
#include "cli/render.h"

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "sys/sys.h"

#include <unistd.h>

#include <algorithm>

namespace ty::cli {

std::string render_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const std::string& cell : header) widths.push_back(count_code_points(cell));
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
            widths[i] = std::max(widths[i], count_code_points(row[i]));
    const auto line = [&](const std::vector<std::string>& cells) {
        std::string out;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            out += cells[i];
            if (i + 1 < cells.size()) out.append(widths[i] - count_code_points(cells[i]) + 2, ' ');
        }
        return out + "\n";
    };
    const bool colours = ::isatty(STDOUT_FILENO) == 1;
    std::string out = colours ? "\x1b[1m" + line(header) + "\x1b[0m" : line(header);
    for (const auto& row : rows) out += line(row);
    return out;
}

void print(std::string_view text) {
    sys::write_all(STDOUT_FILENO, text);
}
void progress(std::string_view text) {
    sys::write_all(STDERR_FILENO, text);
}

std::string show_time(double epoch_seconds) {
    if (epoch_seconds <= 0) return "-";
    std::string text = format_iso8601(from_epoch_seconds(epoch_seconds)).substr(0, 19);
    text[10] = ' ';
    return text;
}

std::string show_duration(long long total) {
    if (total < 60) return format("{}s", total);
    if (total < 3600) return format("{}m {}s", total / 60, total % 60);
    return format("{}h {}m", total / 3600, total / 60 % 60);
}

std::string shell_quote(std::string_view text) {
    return "'" + replace_all(text, "'", "'\\''") + "'";
}

}  // namespace ty::cli
