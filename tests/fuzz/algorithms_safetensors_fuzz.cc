// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: refused, or tensors that lie within it and, laid out again, read
// back as the same.
#include "common/base/error.h"
#include "common/files/safetensors_header.h"

#include <cstdlib>

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const alg::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        alg::SafetensorsHeader header = alg::parse_safetensors_header(bytes, "fuzz");
        for (const alg::SafetensorsEntry& entry : header.entries)
            require(entry.begin <= entry.end && entry.end <= size - header.data);
        const alg::SafetensorsLayout layout =
            alg::lay_out_safetensors(header.entries, header.metadata);
        const std::string again = layout.head + std::string(size - header.data, '\0');
        const alg::SafetensorsHeader read =
            alg::parse_safetensors_header(alg::as_bytes(again), "again");
        require(read.entries.size() == header.entries.size() && read.metadata == header.metadata);
        for (std::size_t i = 0; i < read.entries.size(); ++i)
            require(read.entries[i].name == header.entries[i].name &&
                    read.entries[i].shape == header.entries[i].shape);
    } catch (const alg::Failure&) {
    }
    return 0;
}
