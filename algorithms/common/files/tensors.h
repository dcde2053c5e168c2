// SPDX-License-Identifier: Apache-2.0
// Files of tensors that Python reads and writes: torch.save archives and safetensors. Reading
// executes nothing: a pickle is interpreted against a list of allowed names, everything else is
// refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace alg {

namespace fs = std::filesystem;

/// The order of the file is kept.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What torch.save may hold for us: nested dictionaries with text keys (or integers, as text),
/// lists and tuples, tensors, scalars. OrderedDict reads as a dictionary.
struct Value;
using Dictionary = std::vector<std::pair<std::string, Value>>;
struct Value : std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, at::Tensor,
                            std::vector<Value>, Dictionary> {
    using variant::variant;
    /// Member of a dictionary; nullptr when absent or not a dictionary.
    const Value* find(const std::string& name) const;
};

/// Reads what torch.save of PyTorch >= 1.6 wrote (zip) and, for state dictionaries, the older form.
/// Tensors are CPU tensors sharing storages as the file says. Throws Failure naming the file and
/// what is wrong: not an archive, truncated (checksums of every record are verified), a global that
/// is not allowed (named), sizes beyond the storage.
Value read_torch(const fs::path& file);
/// torch.load(file, weights_only=True) returns the same value. Atomic: temporary name, fsync,
/// rename, fsync of the folder; a failure leaves nothing behind and throws Failure.
void write_torch(const fs::path& file, const Value& value);

/// header: {"__metadata__": {…}, name: {dtype, shape, data_offsets}}.
NamedTensors read_safetensors(const fs::path& file,
                              std::map<std::string, std::string>* metadata = nullptr);
void write_safetensors(const fs::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A model's weights from .safetensors, .pt, .pth or .bin (a state dictionary, or a dictionary that
/// has one under "model", "state_dict" or "module"); a folder: model.safetensors or
/// pytorch_model.bin in it. By content, not by name. A leading "module." of every name is dropped.
NamedTensors read_weights(const fs::path& path);

}  // namespace alg
