// SPDX-License-Identifier: Apache-2.0
// The element types that files of tensors name, without LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace alg {

enum class Element : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

struct ElementNames {
    Element element;
    std::size_t size;
    std::string_view safetensors;  ///< "F32"
    std::string_view storage;      ///< torch.<this>: the class of typed storages
    std::string_view dtype;        ///< torch.<this>
};

inline constexpr std::array<ElementNames, 10> kElements{{
    {Element::f64, 8, "F64", "DoubleStorage", "float64"},
    {Element::f32, 4, "F32", "FloatStorage", "float32"},
    {Element::f16, 2, "F16", "HalfStorage", "float16"},
    {Element::bf16, 2, "BF16", "BFloat16Storage", "bfloat16"},
    {Element::i64, 8, "I64", "LongStorage", "int64"},
    {Element::i32, 4, "I32", "IntStorage", "int32"},
    {Element::i16, 2, "I16", "ShortStorage", "int16"},
    {Element::i8, 1, "I8", "CharStorage", "int8"},
    {Element::u8, 1, "U8", "ByteStorage", "uint8"},
    {Element::boolean, 1, "BOOL", "BoolStorage", "bool"},
}};

inline const ElementNames& names_of(Element element) {
    return kElements[static_cast<std::size_t>(element)];
}
/// By one of the names: find_element(&ElementNames::storage, "FloatStorage").
inline std::optional<Element> find_element(std::string_view ElementNames::*which,
                                           std::string_view name) {
    for (const ElementNames& names : kElements)
        if (names.*which == name) return names.element;
    return std::nullopt;
}

}  // namespace alg
