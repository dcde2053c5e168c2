// SPDX-License-Identifier: Apache-2.0
#include "common/files/torch_elements.h"

#include "common/base/error.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace alg {

c10::ScalarType scalar_type(Element element) {
    switch (element) {
        case Element::f64:
            return at::kDouble;
        case Element::f32:
            return at::kFloat;
        case Element::f16:
            return at::kHalf;
        case Element::bf16:
            return at::kBFloat16;
        case Element::i64:
            return at::kLong;
        case Element::i32:
            return at::kInt;
        case Element::i16:
            return at::kShort;
        case Element::i8:
            return at::kChar;
        case Element::u8:
            return at::kByte;
        case Element::boolean:
            return at::kBool;
    }
    return at::kFloat;
}

Element element_of(const at::Tensor& tensor, const std::string& name) {
    if (!tensor.defined()) fail("tensor \"{}\" is undefined", name);
    if (tensor.layout() != at::kStrided || tensor.is_quantized())
        fail("tensor \"{}\" is sparse or quantised; only plain tensors are written", name);
    for (const ElementNames& names : kElements)
        if (scalar_type(names.element) == tensor.scalar_type()) return names.element;
    fail("tensor \"{}\" has elements of type {}, which are not written", name,
         c10::toString(tensor.scalar_type()));
}

c10::Storage map_storage(const std::shared_ptr<MappedFile>& file, Bytes bytes) {
    c10::DataPtr data;
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % 16 != 0 || bytes.empty()) {
        data = c10::GetCPUAllocator()->allocate(bytes.size());
        if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
    } else {
        auto owner = std::make_unique<std::shared_ptr<MappedFile>>(file);
        data = c10::DataPtr(
            file->writable(bytes), owner.get(),
            [](void* context) { delete static_cast<std::shared_ptr<MappedFile>*>(context); },
            c10::kCPU);
        owner.release();
    }
    return c10::Storage(c10::Storage::use_byte_size_t(), bytes.size(), std::move(data),
                        /*allocator=*/nullptr, /*resizable=*/false);
}

at::Tensor tensor_over(c10::Storage storage, Element element, std::int64_t offset,
                       at::IntArrayRef sizes, at::IntArrayRef strides) {
    at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(scalar_type(element)));
    tensor.set_(std::move(storage), offset, sizes, strides);
    return tensor;
}

}  // namespace alg
