// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, checked as Hugging Face's reader does: every byte of the data
// belongs to exactly one tensor. Without LibTorch.
#pragma once

#include "common/files/elements.h"
#include "common/files/file.h"

#include <map>
#include <string>
#include <vector>

namespace alg {

struct SafetensorsEntry {
    std::string name;
    Element element = Element::f32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  ///< within the data
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;  ///< in the header's order
    std::map<std::string, std::string> metadata;
    std::uint64_t data = 0;  ///< where the data begins in the file
};

/// Throws Failure with `origin`: a header longer than the file or than 100 MB, not JSON, a name
/// twice, an unknown type, offsets that overlap, leave gaps or do not fit shape and file.
SafetensorsHeader parse_safetensors_header(Bytes file, const std::string& origin);

/// The bytes before the data: length and JSON, padded so that the data is 8-byte aligned. Assigns
/// begin and end: wide elements first, so that each tensor is aligned; the header keeps the order
/// given. Returns the entries' indices in the order of the data in `order`.
struct SafetensorsLayout {
    std::string head;
    std::vector<std::size_t> order;
};
SafetensorsLayout lay_out_safetensors(std::vector<SafetensorsEntry>& entries,
                                      const std::map<std::string, std::string>& metadata);

}  // namespace alg
