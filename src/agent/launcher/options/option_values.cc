// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/options/option_values.h"
#include "base/error.h"
#include "base/text.h"
#include "sys/sys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <csignal>

namespace ty::agent {

namespace {

constexpr int kMany = std::numeric_limits<int>::max();

std::optional<int> small_number(std::string_view text) {
    text = trim(text);
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto value = parse_int(text);
    if (!value || *value > kMany || *value < -kMany) return std::nullopt;
    return static_cast<int>(*value);
}

/// "90", "1.5", "250ms", "30s", "2m", "1h" in milliseconds.
std::optional<milliseconds> time_text(std::string_view text) {
    text = trim(text);
    static constexpr std::pair<std::string_view, double> kUnits[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
    double unit = 1000;
    for (const auto& [suffix, size] : kUnits) {
        if (text.size() > suffix.size() && text.ends_with(suffix)) {
            unit = size;
            text.remove_suffix(suffix.size());
            break;
        }
    }
    const auto value = parse_double(text);
    if (!value || !std::isfinite(*value) || *value < 0 || *value * unit > 1e15) return std::nullopt;
    return milliseconds(std::llround(*value * unit));
}

/// What torch.cuda.device_count() would say: CUDA_VISIBLE_DEVICES ends at the first bad entry.
int visible_gpus(int present, EnvLookup env) {
    const auto list = env("CUDA_VISIBLE_DEVICES");
    if (!list) return present;
    int count = 0;
    for (const std::string& entry : split(*list, ',')) {
        const std::string_view id = trim(entry);
        if (id.empty() || id.starts_with('-')) break;
        const auto number = small_number(id);
        if (number && *number >= present) break;
        ++count;
    }
    return std::min(count, present);
}

std::string with_port(const FlagText& value, std::string_view endpoint, int default_port) {
    const bool bracketed = endpoint.starts_with('[');
    const std::size_t bracket = endpoint.rfind(']');
    const std::size_t colon = endpoint.rfind(':');
    const bool has_port = colon != endpoint.npos && (!bracketed || colon > bracket);
    const std::string_view host = endpoint.substr(0, has_port ? colon : endpoint.npos);
    if (host.empty() || host.find_first_of(" \t/") != host.npos) {
        value.refuse("is not HOST[:PORT]; an IPv6 address is written [::1]:29400");
    }
    if (!bracketed && host.find(':') != host.npos) {
        value.refuse("has several colons; an IPv6 address is written [::1]:29400");
    }
    if (!has_port) return format("{}:{}", endpoint, default_port);
    const auto port = small_number(endpoint.substr(colon + 1));
    if (!port || *port < 0 || *port > 65535) value.refuse("has a port outside 0 to 65535");
    return std::string(endpoint);
}

}  // namespace

void FlagText::refuse(std::string_view why) const {
    const bool from_variable = !value_.where.starts_with('-');
    throw Error(
        Code::invalid, "CommandLine",
        format("argument --{}{}: '{}' {}", flag_,
               from_variable ? format(" ({})", value_.where) : std::string(), value_.text, why));
}

int FlagText::number(int low, int high) const {
    const auto value = small_number(value_.text);
    if (!value) refuse("is not a whole number");
    if (*value < low && high == kMany) refuse(format("is too small; the least is {}", low));
    if (*value < low || *value > high) refuse(format("is not between {} and {}", low, high));
    return *value;
}

bool FlagText::on() const {
    const auto value = small_number(value_.text);
    if (!value) refuse("is not a number; give 1 for on, 0 for off");
    return *value != 0;
}

milliseconds FlagText::duration() const {
    const auto value = time_text(value_.text);
    if (!value) refuse("is not a time; give seconds (30, 0.5) or a number with ms, s, m or h");
    return *value;
}

std::string FlagText::one_of(std::initializer_list<std::string_view> choices) const {
    std::string list;
    for (std::string_view choice : choices) {
        if (value_.text == choice) return value_.text;
        list += format("{}{}", list.empty() ? "" : ", ", choice);
    }
    refuse(format("is not one of {}", list));
}

StreamMap stream_map(const FlagText& value) {
    constexpr std::string_view kRemedy =
        "is neither 0, 1, 2 or 3 nor such numbers by local rank: 0:3,1:0";
    StreamMap map;
    const auto bits = [&](std::string_view text) {
        if (text.size() != 1 || text[0] < '0' || text[0] > '3') value.refuse(kRemedy);
        return text[0] - '0';
    };
    if (value.text().find(':') == std::string::npos) {
        map.all = bits(value.text());
        return map;
    }
    for (const std::string& part : split(value.text(), ',')) {
        const std::size_t colon = part.find(':');
        const auto rank = small_number(std::string_view(part).substr(0, colon));
        if (colon == part.npos || !rank || *rank < 0) value.refuse(kRemedy);
        map.by_rank[*rank] = bits(std::string_view(part).substr(colon + 1));
    }
    return map;
}

std::pair<int, int> node_range(const FlagText& value) {
    const auto parts = split(value.text(), ':');
    const auto low = small_number(parts.front());
    const auto high = small_number(parts.back());
    if (parts.size() > 2 || !low || !high) value.refuse("is neither a number nor MIN:MAX");
    if (*low < 1 || *low > *high) value.refuse("must be at least 1, and MIN no more than MAX");
    return {*low, *high};
}

int worker_count(const FlagText& value, EnvLookup env) {
    const std::string& text = value.text();
    if (const auto number = small_number(text)) {
        if (*number < 1) value.refuse("is too small; a node runs at least 1 worker");
        return *number;
    }
    const sys::HostFacts host = sys::read_host();
    const int gpus = visible_gpus(host.gpus, env);
    if (text == "cpu") return host.cpus;
    if (text == "auto") return gpus > 0 ? gpus : host.cpus;
    if (text == "gpu") {
        if (gpus == 0) value.refuse("finds no GPU on this node; give a number, cpu or auto");
        return gpus;
    }
    if (text == "xpu") value.refuse("finds no XPU on this node; give a number, cpu or auto");
    value.refuse("is neither a number nor cpu, gpu, xpu, auto");
}

std::map<std::string, std::string> rendezvous_conf(const FlagText& value) {
    std::map<std::string, std::string> conf;
    if (trim(value.text()).empty()) return conf;
    for (const std::string& part : split(value.text(), ',')) {
        const std::size_t equals = part.find('=');
        const std::string key(trim(std::string_view(part).substr(0, equals)));
        if (key.empty()) value.refuse("is not KEY=VALUE,KEY=VALUE");
        const std::string text(
            equals == part.npos ? "" : trim(std::string_view(part).substr(equals + 1)));
        if (text.empty()) value.refuse(format("gives '{}' no value; write {}=VALUE", key, key));
        conf[key] = text;
    }
    for (const char* key : {"join_timeout", "last_call_timeout", "close_timeout",
                            "heartbeat_timeout", "keep_alive_interval", "read_timeout", "timeout",
                            "lease", "fence", "resize_debounce", "resize_deadline"}) {
        const auto found = conf.find(key);
        if (found == conf.end()) continue;
        const auto time = time_text(found->second);
        if (!time) value.refuse(format("gives {} something other than a number of seconds", key));
        // Readers of the map need to know nothing of units.
        found->second = format("{}", static_cast<double>(time->count()) / 1000);
    }
    const auto store = conf.find("store_type");
    if (store != conf.end() && store->second != "tcp") {
        value.refuse("asks for a store in a file; leave store_type out: the nodes meet over TCP");
    }
    return conf;
}

std::set<int> rank_set(const FlagText& value) {
    std::set<int> ranks;
    if (value.text().empty()) return ranks;
    for (const std::string& part : split(value.text(), ',')) {
        const auto rank = small_number(part);
        if (!rank) value.refuse("is not a list of local ranks such as 0,1,2");
        ranks.insert(*rank);
    }
    return ranks;
}

std::vector<std::string> filter_texts(std::string_view text) {
    std::vector<std::string> texts(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != ',') {
            texts.back() += text[i];
        } else if (i + 1 < text.size() && text[i + 1] == ',') {
            texts.back() += ',';
            ++i;
        } else {
            texts.emplace_back();
        }
    }
    return texts;
}

int signal_number(std::string_view name) {
    if (name.starts_with("SIG")) name.remove_prefix(3);
    if (name.empty()) return 0;
    for (int number = 1; number < SIGRTMIN; ++number) {
        const char* known = ::sigabbrev_np(number);
        if (known != nullptr && name == known) return number;
    }
    return 0;
}

std::vector<int> signal_numbers(const FlagText& value) {
    std::vector<int> numbers;
    for (const std::string& part : split(value.text(), ',')) {
        const std::string_view name = trim(part);
        if (name.empty()) continue;
        const int number = signal_number(name);
        if (number == 0) value.refuse(format("names no signal: {}; such as SIGUSR1", name));
        if (number == SIGKILL || number == SIGSTOP) {
            value.refuse(format("names {}, which no program can handle; leave it out", name));
        }
        if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
            numbers.push_back(number);
        }
    }
    return numbers;
}

std::map<std::string, int> budgets(const FlagText& value) {
    std::map<std::string, int> out;
    for (const std::string& part : split(value.text(), ',')) {
        if (trim(part).empty()) continue;
        const std::size_t equals = part.find('=');
        const std::string cause(trim(std::string_view(part).substr(0, equals)));
        if (cause == "application") value.refuse("sets application; that one is --max-restarts");
        if (cause != "infrastructure" && cause != "preemption" && cause != "resize" &&
            cause != "hang") {
            value.refuse(
                format("names no cause: '{}'; there are infrastructure, preemption, "
                       "resize and hang",
                       cause));
        }
        const std::string count(
            equals == part.npos ? "" : trim(std::string_view(part).substr(equals + 1)));
        const auto number = small_number(count);
        if (count != "unlimited" && (!number || *number < 0)) {
            value.refuse(
                format("gives {} neither a number nor unlimited; write {}=3", cause, cause));
        }
        out[cause] = count == "unlimited" ? kMany : *number;
    }
    return out;
}

Instant end_time(const FlagText& value) {
    const std::string_view text = trim(value.text());
    if (const auto epoch = parse_double(text); epoch && std::isfinite(*epoch) && *epoch > 0) {
        return from_epoch_seconds(*epoch);
    }
    const auto instant = parse_iso8601(text);
    if (!instant) value.refuse("is neither ISO 8601 (2026-01-31T12:00:00Z) nor epoch seconds");
    return *instant;
}

std::pair<int, int> port_range(const FlagText& value) {
    const std::string& text = value.text();
    const std::size_t dash = text.find_first_of("-:");
    const auto low = small_number(std::string_view(text).substr(0, dash));
    const auto high =
        dash == text.npos ? low : small_number(std::string_view(text).substr(dash + 1));
    if (!low || !high || *low < 1 || *high > 65535 || *low > *high) {
        value.refuse("is not LOW-HIGH with ports from 1 to 65535, such as 20000-32700");
    }
    return {*low, *high};
}

std::string endpoints(const FlagText& value, int default_port) {
    std::string out;
    for (const std::string& part : split(value.text(), ',')) {
        out += (out.empty() ? "" : ",") + with_port(value, trim(part), default_port);
    }
    return out;
}

std::string listen_address(const FlagText& value) {
    std::string text(trim(value.text()));
    if (text.starts_with(':')) text.erase(0, 1);
    if (const auto port = small_number(text)) text = format("0.0.0.0:{}", *port);
    if (text.find(':') == text.npos) value.refuse("is not HOST:PORT");
    return with_port(value, text, 0);
}

}  // namespace ty::agent
