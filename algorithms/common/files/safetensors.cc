// SPDX-License-Identifier: Apache-2.0
// safetensors files as tensors: read in place from the mapped file, written tensor by tensor.
#include "common/base/error.h"
#include "common/files/atomic_file.h"
#include "common/files/safetensors_header.h"
#include "common/files/tensors.h"
#include "common/files/torch_elements.h"

#include <ATen/ops/empty.h>

namespace alg {
namespace {

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;)
        strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
    return strides;
}

}  // namespace

NamedTensors read_safetensors(const fs::path& path, std::map<std::string, std::string>* metadata) {
    const auto file = std::make_shared<MappedFile>(path);
    SafetensorsHeader header = parse_safetensors_header(file->bytes(), path.string());
    NamedTensors tensors;
    tensors.reserve(header.entries.size());
    for (SafetensorsEntry& entry : header.entries) {
        const Bytes bytes =
            file->bytes().subspan(header.data + entry.begin, entry.end - entry.begin);
        const bool empty = bytes.empty();
        tensors.emplace_back(
            std::move(entry.name),
            empty ? at::empty(entry.shape, at::TensorOptions().dtype(scalar_type(entry.element)))
                  : tensor_over(map_storage(file, bytes), entry.element, 0, entry.shape,
                                contiguous_strides(entry.shape)));
    }
    if (metadata != nullptr) *metadata = std::move(header.metadata);
    return tensors;
}

void write_safetensors(const fs::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
    std::vector<SafetensorsEntry> entries;
    entries.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors)
        entries.push_back(
            {.name = name, .element = element_of(tensor, name), .shape = tensor.sizes().vec()});
    // transformers refuses files that do not say which framework they are of.
    std::map<std::string, std::string> said = metadata;
    said.emplace("format", "pt");
    const SafetensorsLayout layout = lay_out_safetensors(entries, said);
    write_atomically(file, [&](const fs::path& path) {
        OutputFile out(path);
        out.write(layout.head);
        for (const std::size_t index : layout.order) {
            const at::Tensor whole = tensors[index].second.detach().cpu().contiguous();
            out.write({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
        }
        out.close();
    });
}

}  // namespace alg
