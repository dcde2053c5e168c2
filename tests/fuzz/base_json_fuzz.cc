// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JSON document: refused with invalid, or read and written again to the same value.
#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const ty::Json document =
            ty::parse_json(std::string_view(reinterpret_cast<const char*>(data), size));
        const std::string text = ty::dump_json(document);
        TY_ASSERT(ty::dump_json(ty::parse_json(text)) == text);
    } catch (const ty::Error& error) {
        TY_ASSERT(error.code() == ty::Code::invalid);
    }
    return 0;
}
