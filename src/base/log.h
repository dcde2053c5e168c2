// SPDX-License-Identifier: Apache-2.0
// One line per event on stderr: time, level, message, key=value pairs (D7).
//
// error: we failed to do our job. warning: somebody else did something odd. info: an operator wants
// it at 3 a.m. debug: a developer. Secrets never go in. Any thread; lines are written whole.
#pragma once

#include "base/format.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ty::log {

enum class Level { debug, info, warning, error };

struct Field {
    std::string key;
    std::string value;
    template <typename T>
    Field(std::string_view name, const T& v) : key(name), value(fmt::format("{}", v)) {}
};

using Fields = std::initializer_list<Field>;
using Sink = std::function<void(std::string_view line)>;

/// Replace the sink (tests, agent spool). The one global of the program (R14). Call before threads
/// start.
void set_sink(Sink sink);
void set_level(Level level);

void debug(std::string_view message, Fields fields = {});
void info(std::string_view message, Fields fields = {});
void warning(std::string_view message, Fields fields = {});
void error(std::string_view message, Fields fields = {});

}  // namespace ty::log
