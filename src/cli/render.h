// SPDX-License-Identifier: Apache-2.0
// Tables, colours and times on the terminal. Results go to stdout, progress and errors to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ty::cli {

/// Columns padded to their widest cell, header in bold on a terminal.
std::string render_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);
void print(std::string_view text);
void progress(std::string_view text);
/// Epoch seconds as "2026-01-31 12:00:00" UTC; "-" for none.
std::string show_time(double epoch_seconds);
/// "2m 14s".
std::string show_duration(long long seconds);
/// Single-quoted for sh, whatever it holds.
std::string shell_quote(std::string_view text);

}  // namespace ty::cli
