// SPDX-License-Identifier: Apache-2.0
#include "common/training/state_files.h"

#include "common/base/error.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace alg {
namespace {

constexpr std::string_view kBefore = "state-", kAfter = ".pt";
constexpr std::int64_t kFormat = 1;

template <typename T>
const T& member(const Value& value, const char* name) {
    const Value* found = value.find(name);
    const T* as = found == nullptr ? nullptr : std::get_if<T>(found);
    if (as == nullptr) fail("it is no training state: \"{}\" is missing or of another type", name);
    return *as;
}

template <typename Numbers>
Dictionary dictionary_of(const Numbers& numbers) {
    Dictionary result;
    for (const auto& [name, value] : numbers) result.emplace_back(name, value);
    return result;
}

NamedTensors tensors_of(const Dictionary& dictionary) {
    NamedTensors tensors;
    for (const auto& [name, value] : dictionary)
        if (const auto* tensor = std::get_if<at::Tensor>(&value))
            tensors.emplace_back(name, *tensor);
    return tensors;
}

template <typename T>
std::map<std::string, T> map_of(const Value& value, const char* name) {
    std::map<std::string, T> result;
    const Value& all = *value.find(name);
    for (const auto& [key, unused] : member<Dictionary>(value, name))
        result[key] = member<T>(all, key.c_str());
    return result;
}

Value encode(const Position& position) {
    std::vector<Value> scale;
    for (const double number : position.loss_scale) scale.emplace_back(number);
    return Dictionary{
        {"format", kFormat},
        {"update", position.update},
        {"epoch", position.epoch},
        {"update_in_epoch", position.update_in_epoch},
        {"samples", position.samples},
        {"world", std::int64_t{position.world}},
        {"accumulate", std::int64_t{position.accumulate}},
        {"skipped", position.skipped},
        {"seed", static_cast<std::int64_t>(position.seed)},  // the same 64 bits
        {"loss_scale", std::move(scale)},
        {"numbers", dictionary_of(position.numbers)},
        {"texts", dictionary_of(position.texts)},
    };
}

Position decode_position(const Value& value) {
    using Int = std::int64_t;
    if (const Int format = member<Int>(value, "format"); format != kFormat)
        fail("it is of format {}, which a later version has written; this one reads {}", format,
             kFormat);
    Position position;
    position.update = member<Int>(value, "update");
    position.epoch = member<Int>(value, "epoch");
    position.update_in_epoch = member<Int>(value, "update_in_epoch");
    position.samples = member<Int>(value, "samples");
    position.world = static_cast<int>(member<Int>(value, "world"));
    position.accumulate = static_cast<int>(member<Int>(value, "accumulate"));
    position.skipped = member<Int>(value, "skipped");
    position.seed = static_cast<std::uint64_t>(member<Int>(value, "seed"));
    for (const Value& number : member<std::vector<Value>>(value, "loss_scale")) {
        const auto* scale = std::get_if<double>(&number);
        if (scale == nullptr) fail("it is no training state: \"loss_scale\" holds no number");
        position.loss_scale.push_back(*scale);
    }
    position.numbers = map_of<double>(value, "numbers");
    position.texts = map_of<std::string>(value, "texts");
    return position;
}

// Bytes of one machine for processes of the same program.
void put(std::string& out, const std::string& text);
template <typename T>
requires std::is_arithmetic_v<T>
void put(std::string& out, T number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& out, const std::string& text) {
    put(out, text.size());
    out += text;
}
template <typename T>
void get(std::string_view& in, T& into) {
    if constexpr (std::is_same_v<T, std::string>) {
        std::size_t size = 0;
        get(in, size);
        if (size > in.size()) fail("the position of another rank is cut off");
        into = std::string(in.substr(0, size));
        in.remove_prefix(size);
    } else {
        if (in.size() < sizeof into) fail("the position of another rank is cut off");
        std::memcpy(&into, in.data(), sizeof into);
        in.remove_prefix(sizeof into);
    }
}
template <typename T>
void get(std::string_view& in, std::map<std::string, T>& into) {
    std::size_t count = 0;
    get(in, count);
    for (std::size_t i = 0; i < count; ++i) {
        std::string name;
        get(in, name);
        get(in, into[name]);
    }
}
template <typename T>
void put(std::string& out, const std::map<std::string, T>& values) {
    put(out, values.size());
    for (const auto& [name, value] : values) {
        put(out, name);
        put(out, value);
    }
}

}  // namespace

fs::path state_file(const fs::path& folder, std::int64_t update) {
    return folder / format("{}{:09}{}", kBefore, update, kAfter);
}

std::vector<StateFile> state_files(const fs::path& folder) {
    std::vector<StateFile> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(kBefore) || !name.ends_with(kAfter) ||
            name.size() <= kBefore.size() + kAfter.size())
            continue;
        const char* first = name.data() + kBefore.size();
        const char* last = name.data() + name.size() - kAfter.size();
        std::int64_t update = 0;
        const auto [at, problem] = std::from_chars(first, last, update);
        if (problem == std::errc{} && at == last && update >= 0)
            files.push_back({entry->path(), update});
    }
    std::sort(files.begin(), files.end(), [](const StateFile& a, const StateFile& b) {
        return a.update != b.update ? a.update > b.update : a.path < b.path;
    });
    return files;
}

Value encode(const State& state) {
    Dictionary optimizer = dictionary_of(state.optimizer);
    optimizer.emplace_back("steps", state.steps);
    return Dictionary{{"model", dictionary_of(state.model)},
                      {"optimizer", std::move(optimizer)},
                      {"position", encode(state.position)}};
}

State decode(const Value& value) {
    State state;
    state.model = tensors_of(member<Dictionary>(value, "model"));
    state.optimizer = tensors_of(member<Dictionary>(value, "optimizer"));
    state.steps = member<std::int64_t>(*value.find("optimizer"), "steps");
    member<Dictionary>(value, "position");
    state.position = decode_position(*value.find("position"));
    return state;
}

std::string pack(const Position& position) {
    std::string out;
    put(out, position.update);
    put(out, position.epoch);
    put(out, position.update_in_epoch);
    put(out, position.samples);
    put(out, position.world);
    put(out, position.accumulate);
    put(out, position.skipped);
    put(out, position.seed);
    put(out, position.loss_scale.size());
    for (const double number : position.loss_scale) put(out, number);
    put(out, position.numbers);
    put(out, position.texts);
    return out;
}

Position unpack(const std::string& bytes) {
    Position position;
    std::string_view in = bytes;
    get(in, position.update);
    get(in, position.epoch);
    get(in, position.update_in_epoch);
    get(in, position.samples);
    get(in, position.world);
    get(in, position.accumulate);
    get(in, position.skipped);
    get(in, position.seed);
    std::size_t scales = 0;
    get(in, scales);
    for (std::size_t i = 0; i < scales; ++i) get(in, position.loss_scale.emplace_back());
    get(in, position.numbers);
    get(in, position.texts);
    return position;
}

void remove_old_states(const fs::path& folder, std::int64_t update, int keep,
                       const std::set<fs::path>& damaged) {
    std::error_code ignored;
    int kept = 0;
    for (const StateFile& file : state_files(folder)) {
        // The new one may have replaced a damaged file of its name.
        const bool is_new = file.update == update;
        if (!is_new && damaged.contains(file.path)) {
            fs::remove(file.path, ignored);
        } else if (file.update <= update && kept++ >= keep && !is_new) {
            fs::remove(file.path, ignored);
        }
    }
}

}  // namespace alg
