// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include "base/sync.h"
#include "base/time.h"

#include <unistd.h>

#include <atomic>

namespace ty::log {

namespace {

void to_stderr(std::string_view line) {
    // One write per line: lines of several threads and processes never interleave on a pipe.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

struct Global {
    Sync<Sink> sink{Sink(to_stderr)};
    std::atomic<Level> level{Level::info};
};

Global& global() {
    static Global instance;
    return instance;
}

bool needs_quotes(std::string_view value) {
    return value.empty() || value.find_first_of(" \"=\n\r\t\\") != std::string_view::npos;
}

void append_value(std::string& line, std::string_view value) {
    if (!needs_quotes(value)) {
        line += value;
        return;
    }
    line += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\') line += '\\';
        if (c == '\n') {
            line += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20) {
            line += ' ';
        } else {
            line += c;
        }
    }
    line += '"';
}

void emit(Level level, std::string_view name, std::string_view message, Fields fields) {
    if (level < global().level.load(std::memory_order_relaxed)) return;
    std::string line = format_iso8601(SystemClock().now());
    line += ' ';
    line += name;
    line += ' ';
    line += message;
    for (const Field& field : fields) {
        line += ' ';
        line += field.key;
        line += '=';
        append_value(line, field.value);
    }
    line += '\n';
    global().sink.with([&](Sink& sink) { sink(line); });
}

}  // namespace

void set_sink(Sink sink) {
    global().sink.with([&](Sink& current) { current = std::move(sink); });
}

void set_level(Level level) {
    global().level = level;
}

void debug(std::string_view message, Fields fields) {
    emit(Level::debug, "debug", message, fields);
}
void info(std::string_view message, Fields fields) {
    emit(Level::info, "info", message, fields);
}
void warning(std::string_view message, Fields fields) {
    emit(Level::warning, "warning", message, fields);
}
void error(std::string_view message, Fields fields) {
    emit(Level::error, "error", message, fields);
}

}  // namespace ty::log
