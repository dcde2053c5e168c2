// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <set>
#include <vector>

namespace ty {

namespace {

constexpr int kMaxDepth = 64;

/// Watches the parse events for depth and duplicate members; nlohmann itself accepts both.
class Guard {
public:
    bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
        using Event = Json::parse_event_t;
        if (depth > kMaxDepth)
            throw_error(Code::invalid, "MalformedJson", "JSON is nested deeper than {} levels",
                        kMaxDepth);
        if (event == Event::object_start) {
            members_.emplace_back();
        } else if (event == Event::object_end) {
            members_.pop_back();
        } else if (event == Event::key) {
            const auto& name = parsed.get_ref<const std::string&>();
            if (!members_.back().insert(name).second)
                throw_error(Code::invalid, "MalformedJson",
                            "member \"{}\" appears twice in one object", name);
        }
        return true;
    }

private:
    std::vector<std::set<std::string>> members_;
};

}  // namespace

Json parse_json(std::string_view text) {
    // The parser takes a NUL byte for the end of its input.
    if (const std::size_t nul = text.find('\0'); nul != text.npos)
        throw_error(Code::invalid, "MalformedJson", "not valid JSON at byte {}", nul + 1);
    try {
        Guard guard;
        return Json::parse(text, std::ref(guard));
    } catch (const nlohmann::json::parse_error& error) {
        throw_error(Code::invalid, "MalformedJson", "not valid JSON at byte {}", error.byte);
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::invalid, "MalformedJson", "not valid JSON: {}", error.what());
    }
}

std::string dump_json(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json_pretty(const Json& value) {
    return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ty
