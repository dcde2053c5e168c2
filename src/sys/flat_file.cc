// SPDX-License-Identifier: Apache-2.0
#include "sys/flat_file.h"

#include "base/result.h"
#include "base/text.h"

namespace ty::sys {

std::string read_quietly(const fs::path& file) {
    Result<std::string> text = capture([&] { return read_file(file); });
    return text.ok() ? std::move(text).value() : std::string();
}

long long flat_counter(const std::string& text, std::string_view name) {
    for (const std::string& line : split(text, '\n')) {
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
            return parse_int(trim(std::string_view(line).substr(name.size() + 1))).value_or(-1);
    }
    return -1;
}

}  // namespace ty::sys
