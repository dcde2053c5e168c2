// SPDX-License-Identifier: Apache-2.0
#include "common/base/place.h"

#include "common/base/error.h"
#include "common/base/json_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

namespace alg {

namespace {

std::optional<std::string> variable(const char* name) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') return std::nullopt;
    return text;
}

std::optional<int> number(const char* name, int least, int most) {
    const std::optional<std::string> text = variable(name);
    if (!text) return std::nullopt;
    int value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stop != end || value < least || value > most)
        fail("environment variable {} is \"{}\"; a whole number from {} to {} is expected", name,
             *text, least, most);
    return value;
}

std::string text_of(const nlohmann::json& object, const char* key, const std::string& file) {
    const auto found = object.find(key);
    if (found == object.end()) return "";
    if (!found->is_string()) fail("{}: \"{}\" is {}, not a text", file, key, kind_of(*found));
    return found->get<std::string>();
}

void read_hosts(Place& place, const std::filesystem::path& path) {
    const std::optional<nlohmann::json> object = read_json_object(path);
    if (!object) return;
    const std::string file = path.string();
    place.interface = text_of(*object, "network_interface_name", file);
    const auto hosts = object->find("hosts");
    if (hosts == object->end()) fail("{}: \"hosts\" is missing", file);
    if (!hosts->is_array() || hosts->empty())
        fail("{}: \"hosts\" is {}; a list of at least one name is expected", file,
             hosts->is_array() ? "empty" : kind_of(*hosts));
    place.hosts.clear();
    std::set<std::string> seen;
    for (const nlohmann::json& host : *hosts) {
        if (!host.is_string())
            fail("{}: \"hosts\" contains {}, not only texts", file, kind_of(host));
        place.hosts.push_back(host.get<std::string>());
        if (!seen.insert(place.hosts.back()).second)
            fail("{}: \"hosts\" names \"{}\" twice", file, place.hosts.back());
    }
    place.current_host = text_of(*object, "current_host", file);
    const auto self = std::find(place.hosts.begin(), place.hosts.end(), place.current_host);
    if (self == place.hosts.end())
        fail("{}: \"current_host\" is \"{}\", which is none of the {} hosts", file,
             place.current_host, place.hosts.size());
    place.rank = static_cast<int>(self - place.hosts.begin());
    place.world = static_cast<int>(place.hosts.size());
    place.master_address = place.world > 1 ? place.hosts.front() : "127.0.0.1";
}

}  // namespace

Place read_place(const std::filesystem::path& config) {
    constexpr int kMost = 1 << 20;
    Place place;
    read_hosts(place, config / "resourceconfig.json");
    // The platform names the master for programs that form their own group, too.
    if (const auto address = variable("MASTER_ADDR")) place.master_address = *address;
    if (const auto port = number("MASTER_PORT", 1, 65535)) place.master_port = *port;

    const std::optional<int> rank = number("RANK", 0, kMost);
    const std::optional<int> world = number("WORLD_SIZE", 1, kMost);
    if (!rank && !world) return place;
    if (!rank || !world)
        fail("environment variable {} is set but {} is not; a launcher sets both",
             rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
    place.rank = *rank;
    place.world = *world;
    place.local_world = number("LOCAL_WORLD_SIZE", 1, kMost).value_or(1);
    place.local_rank = number("LOCAL_RANK", 0, kMost).value_or(0);
    if (place.rank >= place.world)
        fail("environment variable RANK is {} and WORLD_SIZE {}; ranks count from 0", place.rank,
             place.world);
    if (place.local_world > place.world || place.local_rank >= place.local_world)
        fail(
            "environment variables LOCAL_RANK={}, LOCAL_WORLD_SIZE={} and WORLD_SIZE={} "
            "contradict each other",
            place.local_rank, place.local_world, place.world);
    if (place.world > 1 && !variable("MASTER_ADDR") && place.hosts.size() == 1 &&
        place.local_world != place.world)
        fail("environment variable WORLD_SIZE is {} but MASTER_ADDR is not set", place.world);
    return place;
}

}  // namespace alg
