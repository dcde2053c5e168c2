// SPDX-License-Identifier: Apache-2.0
// Wire structures as data: every generated struct carries a table of its fields, and one reader,
// one writer and one validator walk it (D5). The tables erase the C++ types, so that this code is
// compiled once and not once per struct.
//
// Reading is strict about types and lenient about members nobody knows; constraints are checked
// apart and all at once, in the words AWS uses. Everything here is immutable data: any thread.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "base/time.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::shape {

/// A JSON object of any keys, in order of arrival.
template <typename T>
using Entries = std::vector<std::pair<std::string, T>>;

enum class Kind { string, integer, number, boolean, timestamp, list, map, structure };

/// A regular expression the whole text must match; `text` is what messages show.
struct Pattern {
    std::string_view text;
    bool (*matches)(std::string_view value);
};

struct Type;

/// One member of a structure. C++ member: std::optional<value>.
struct Field {
    std::string_view name;  ///< as on the wire: "TrainingJobName"
    const Type* type;
    bool required;
    void* (*emplace)(void* object);           ///< make it present, return its value
    const void* (*find)(const void* object);  ///< its value; nullptr when absent
};

/// How elements of a list or map are reached without knowing their C++ type.
struct Access {
    std::size_t (*size)(const void* container);
    const void* (*at)(const void* container, std::size_t index);
    const std::string& (*key)(const void* container, std::size_t index);  ///< maps only
    void* (*add)(void* container, std::string key);                       ///< key unused by lists
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::min();

/// One shape of the model. `min` and `max` bound the value of numbers and the length of the rest.
struct Type {
    Kind kind;
    std::string_view name;  ///< in the model: "TrainingJobName"
    std::int64_t min = kNoLimit, max = kNoLimit;
    const Pattern* pattern = nullptr;
    std::span<const std::string_view> values;  ///< enumerations: everything allowed
    std::span<const Field> fields;             ///< structures
    const Type* key = nullptr;                 ///< maps
    const Type* element = nullptr;             ///< lists and maps
    const Access* access = nullptr;            ///< lists and maps
    bool wide = false;                         ///< integers: 64 bits, else 32
};

// ---- what generated tables are made of
// ------------------------------------------------------------

template <typename Member>
struct MemberOf;
template <typename Object, typename Value>
struct MemberOf<std::optional<Value> Object::*> {
    using object = Object;
};

template <auto Member>
constexpr Field field(std::string_view name, const Type& type, bool required = false) {
    using Object = typename MemberOf<decltype(Member)>::object;
    return {
        name, &type, required,
        [](void* object) -> void* { return &(static_cast<Object*>(object)->*Member).emplace(); },
        [](const void* object) -> const void* {
            const auto& member = static_cast<const Object*>(object)->*Member;
            return member ? &*member : nullptr;
        }};
}

template <typename T>
inline constexpr Access kListOf = {
    [](const void* list) { return static_cast<const std::vector<T>*>(list)->size(); },
    [](const void* list, std::size_t index) -> const void* {
        return &(*static_cast<const std::vector<T>*>(list))[index];
    },
    nullptr,
    [](void* list, std::string) -> void* {
        return &static_cast<std::vector<T>*>(list)->emplace_back();
    }};

template <typename T>
inline constexpr Access kMapOf = {
    [](const void* map) { return static_cast<const Entries<T>*>(map)->size(); },
    [](const void* map, std::size_t index) -> const void* {
        return &(*static_cast<const Entries<T>*>(map))[index].second;
    },
    [](const void* map, std::size_t index) -> const std::string& {
        return (*static_cast<const Entries<T>*>(map))[index].first;
    },
    [](void* map, std::string key) -> void* {
        return &static_cast<Entries<T>*>(map)->emplace_back(std::move(key), T()).second;
    }};

// ---- reading, checking, writing
// --------------------------------------------------------------------

/// A generated struct.
template <typename T>
concept Structure = requires {
    { T::kShape } -> std::convertible_to<const Type&>;
};

/// Fill `object` of the given structure type. null members count as absent. Throws invalid
/// ("SerializationException") naming the member that has the wrong JSON type. Paths of members the
/// type does not know are added to `unknown` when given; they are otherwise ignored, as AWS does.
void read_into(const Json& json, const Type& type, void* object, std::vector<std::string>* unknown);

/// Every violated constraint of a filled object, in the order of its fields; `path` is lower camel
/// case ("resourceConfig.instanceCount", "tags.1.member.key"), the message AWS's full sentence.
std::vector<Problem> check_object(const Type& type, const void* object);

/// Absent members are left out; timestamps become seconds of the epoch.
Json write_object(const Type& type, const void* object);

template <Structure T>
T read(const Json& json, std::vector<std::string>* unknown = nullptr) {
    T object;
    read_into(json, T::kShape, &object, unknown);
    return object;
}
template <Structure T>
std::vector<Problem> check(const T& object) {
    return check_object(T::kShape, &object);
}
template <Structure T>
auto write(const T& object) {
    return write_object(T::kShape, &object);
}

/// "2 validation errors detected: A; B".
std::string violation_text(std::span<const Problem> problems);
/// Throws invalid ("ValidationException") with violation_text unless there are none.
void require_none(std::vector<Problem> problems);

/// "TrainingJobName" -> "trainingJobName", the way messages name members.
std::string lower_camel(std::string_view name);

}  // namespace ty::shape
