// SPDX-License-Identifier: Apache-2.0
// Flags' texts turned into values: numbers, times, stream maps, signals, ranges. Every message
// names the flag (or variable), the value and what would be right.
//
// Private to the launcher's options; pure functions.
#pragma once

#include "agent/launcher/options/flags.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::agent {

/// One flag's value with what a message about it needs.
class FlagText {
public:
    FlagText(std::string_view flag, GivenValue value) : flag_(flag), value_(std::move(value)) {}
    const std::string& text() const { return value_.text; }
    /// Throws invalid: "argument --nnodes (PET_NNODES): 'x' is not ...".
    [[noreturn]] void refuse(std::string_view why) const;

    int number(int low, int high) const;
    bool on() const;  ///< a switch; from a variable any whole number, not 0
    milliseconds duration() const;
    std::string one_of(std::initializer_list<std::string_view> choices) const;

private:
    std::string flag_;
    GivenValue value_;
};

StreamMap stream_map(const FlagText& value);
std::pair<int, int> node_range(const FlagText& value);
int worker_count(const FlagText& value, EnvLookup env);
std::map<std::string, std::string> rendezvous_conf(const FlagText& value);
std::set<int> rank_set(const FlagText& value);
/// Comma-separated; two commas are one that belongs to the text.
std::vector<std::string> filter_texts(std::string_view text);
std::vector<int> signal_numbers(const FlagText& value);
/// "SIGTERM" or "TERM"; 0 when there is no such signal.
int signal_number(std::string_view name);
std::map<std::string, int> budgets(const FlagText& value);
Instant end_time(const FlagText& value);
std::pair<int, int> port_range(const FlagText& value);
/// host:port with `default_port` filled in; several by commas.
std::string endpoints(const FlagText& value, int default_port);
/// "host:port"; a bare port means every address.
std::string listen_address(const FlagText& value);

}  // namespace ty::agent
