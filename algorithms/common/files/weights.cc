// SPDX-License-Identifier: Apache-2.0
// A model's weights, whichever of the usual files they come in.
#include "common/base/error.h"
#include "common/files/file.h"
#include "common/files/tensors.h"

#include <algorithm>

namespace alg {
namespace {

fs::path file_in(const fs::path& folder) {
    for (const char* name : {"model.safetensors", "pytorch_model.bin"})
        if (fs::exists(folder / name)) return folder / name;
    for (const char* name : {"model.safetensors.index.json", "pytorch_model.bin.index.json"})
        if (fs::exists(folder / name))
            fail(
                "{}: its weights are in several files; save them as one (save_pretrained with a "
                "larger max_shard_size)",
                folder.string());
    fail("{}: neither model.safetensors nor pytorch_model.bin in it", folder.string());
}

bool is_safetensors(const fs::path& path) {
    const std::string bytes = read_start(path, 9);
    return bytes.size() == 9 && bytes[8] == '{' && !bytes.starts_with("PK");
}

const Value& state_dictionary(const Value& value) {
    for (const char* name : {"model", "state_dict", "module"}) {
        const Value* inner = value.find(name);
        if (inner != nullptr && std::holds_alternative<Dictionary>(*inner)) return *inner;
    }
    return value;
}

NamedTensors tensors_of(const Value& value, const fs::path& path) {
    const auto* members = std::get_if<Dictionary>(&state_dictionary(value));
    if (members == nullptr) fail("{}: holds no state dictionary", path.string());
    NamedTensors tensors;
    tensors.reserve(members->size());
    for (const auto& [name, member] : *members) {
        const auto* tensor = std::get_if<at::Tensor>(&member);
        if (tensor == nullptr)
            fail(
                "{}: \"{}\" is no tensor; a state dictionary is expected, alone or under "
                "\"model\", \"state_dict\" or \"module\"",
                path.string(), name);
        tensors.emplace_back(name, *tensor);
    }
    return tensors;
}

}  // namespace

NamedTensors read_weights(const fs::path& path) {
    if (!fs::exists(path)) fail("{}: no such file or folder", path.string());
    const fs::path file = fs::is_directory(path) ? file_in(path) : path;
    NamedTensors tensors =
        is_safetensors(file) ? read_safetensors(file) : tensors_of(read_torch(file), file);
    // DistributedDataParallel's wrapper.
    constexpr std::string_view kWrapper = "module.";
    if (std::all_of(tensors.begin(), tensors.end(),
                    [&](const auto& named) { return named.first.starts_with(kWrapper); }))
        for (auto& named : tensors) named.first.erase(0, kWrapper.size());
    return tensors;
}

}  // namespace alg
