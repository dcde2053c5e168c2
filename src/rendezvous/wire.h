// SPDX-License-Identifier: Apache-2.0
// Strict reading of JSON objects, and the structs that messages and snapshots share. Private to
// this folder. Everything throws invalid with the member's path.
#pragma once

#include "base/json.h"
#include "rendezvous/rendezvous.h"

#include <limits>
#include <span>

namespace ty::rendezvous {

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxSnapshot = std::size_t{8} << 20U;
constexpr std::int64_t kMaxGeneration = std::int64_t{1} << 53U;
constexpr std::int64_t kMaxNodes = 100000;
constexpr std::int64_t kMaxWorkers = 4096;
constexpr std::int64_t kMaxRank = std::numeric_limits<std::int32_t>::max();

/// One JSON object. Unknown members are ignored, so that newer nodes may say more.
class Reader {
public:
    Reader(const Json& value, std::string path);

    /// Throws when the member is missing.
    const Json& need(const char* name) const;
    /// nullptr when it is missing or null.
    const Json* find(const char* name) const;
    Reader object(const char* name) const { return Reader(need(name), at(name)); }
    const Json& list(const char* name, std::size_t most) const;
    std::string at(const char* name) const { return path_ + "." + name; }

    std::string text(const char* name, std::size_t limit = kMaxText) const;
    bool flag(const char* name) const;
    std::int64_t whole(const char* name, std::int64_t low, std::int64_t high) const;
    int number(const char* name, std::int64_t low, std::int64_t high) const {
        return static_cast<int>(whole(name, low, high));
    }
    int port(const char* name) const { return number(name, 0, 65535); }
    std::int64_t generation(const char* name) const { return whole(name, 0, kMaxGeneration); }
    milliseconds duration(const char* name) const;

    template <typename Enum>
    Enum choice(const char* name, std::span<const Enum> known,
                std::string_view (*word)(Enum)) const {
        const std::string given = text(name);
        for (const Enum value : known)
            if (word(value) == given) return value;
        refuse(name, "a known word, not \"" + given.substr(0, 64) + "\"");
    }
    Cause cause(const char* name) const;
    Verdict verdict(const char* name) const;
    Phase phase(const char* name) const;

    [[noreturn]] void refuse(const char* name, const std::string& wanted) const;

private:
    const Json& value_;
    std::string path_;
};

/// Valid UTF-8 of at most kMaxText bytes: a long traceback must not make a frame unreadable.
std::string clipped(const std::string& text);

Json to_json(const NodeFacts& facts);
NodeFacts read_facts(const Reader& in);
Json to_json(const Failure& failure);
Failure read_failure(const Reader& in);
Json to_json(const Policy& policy);
Policy read_policy(const Reader& in);
Json to_json(const Assignment& assignment);
Assignment read_assignment(const Reader& in);
Json to_json(const down::Finish& finish);
down::Finish read_finish(const Reader& in);
Json to_json(const std::map<Cause, int>& counts);
std::map<Cause, int> read_counts(const Reader& in);

}  // namespace ty::rendezvous
