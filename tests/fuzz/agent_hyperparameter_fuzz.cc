// SPDX-License-Identifier: Apache-2.0
// Hyperparameter values as Python decodes them: any text is decoded, and what was decoded is
// spelled in JSON that decodes to the same again.
#include "agent/contract/python_value.h"
#include "base/error.h"
#include "base/text.h"

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const ty::agent::PythonValue value = ty::agent::PythonValue::decode(text);
    (void)value.str();
    if (!ty::is_valid_utf8(text)) return 0;
    const std::string json = value.json();
    const auto again = ty::agent::PythonValue::parse(json);
    TY_ASSERT(again.has_value());
    TY_ASSERT(again->json() == json);
    return 0;
}
