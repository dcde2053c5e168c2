// SPDX-License-Identifier: Apache-2.0
// Group ranks: survivors stay where they are, newcomers fill the holes, names sort as people read
// them. Pure functions.
#include "rendezvous/state.h"

#include <algorithm>
#include <map>

namespace ty::rendezvous {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// The run of digits at `at`, without leading zeros; `at` moves behind it.
std::string_view take_number(std::string_view text, std::size_t& at) {
    std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    while (begin + 1 < at && text[begin] == '0') ++begin;
    return text.substr(begin, at - begin);
}

/// <0, 0, >0. Numbers of any length: longer without leading zeros is larger.
int compare_naturally(std::string_view a, std::string_view b) {
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (is_digit(a[i]) && is_digit(b[j])) {
            const std::string_view x = take_number(a, i), y = take_number(b, j);
            if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
            if (const int order = x.compare(y); order != 0) return order;
        } else {
            const auto x = static_cast<unsigned char>(a[i++]);
            const auto y = static_cast<unsigned char>(b[j++]);
            if (x != y) return x < y ? -1 : 1;
        }
    }
    return static_cast<int>(i < a.size()) - static_cast<int>(j < b.size());
}

bool sits_before(const NodeFacts& a, const NodeFacts& b) {
    if (a.slot.has_value() != b.slot.has_value()) return a.slot.has_value();
    if (a.slot && *a.slot != *b.slot) return *a.slot < *b.slot;
    return natural_less(a.host, b.host);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
    const int order = compare_naturally(a, b);
    // "node7" and "node07" are the same number but two names: a strict order needs a tie-break.
    return order != 0 ? order < 0 : a < b;
}

std::vector<std::string> seat_nodes(const std::vector<std::string>& before,
                                    const std::vector<NodeFacts>& arrived) {
    std::map<std::string_view, bool> seated;  // id -> kept its place
    for (const NodeFacts& facts : arrived) seated.emplace(facts.id, false);
    std::vector<std::string> seats = before;
    for (std::string& seat : seats) {
        const auto found = seated.find(seat);
        if (found == seated.end() || found->second)
            seat.clear();
        else
            found->second = true;
    }
    std::vector<const NodeFacts*> newcomers;
    for (const NodeFacts& facts : arrived)
        if (bool& known = seated.at(facts.id); !known) {
            known = true;
            newcomers.push_back(&facts);
        }
    std::stable_sort(newcomers.begin(), newcomers.end(),
                     [](const NodeFacts* a, const NodeFacts* b) { return sits_before(*a, *b); });
    std::size_t hole = 0;
    for (const NodeFacts* facts : newcomers) {
        while (hole < seats.size() && !seats[hole].empty()) ++hole;
        if (hole == seats.size()) seats.emplace_back();
        seats[hole] = facts->id;
    }
    return seats;
}

std::vector<std::string> order_nodes(const std::vector<std::string>& before,
                                     const std::vector<NodeFacts>& arrived) {
    std::vector<std::string> seats = seat_nodes(before, arrived);
    std::erase(seats, std::string());
    return seats;
}

}  // namespace ty::rendezvous
