// SPDX-License-Identifier: Apache-2.0
// Element types as LibTorch's, and tensors over bytes of a file. Private to this folder.
#pragma once

#include "common/files/elements.h"
#include "common/files/file.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace alg {

c10::ScalarType scalar_type(Element element);
/// Throws Failure with `name` for types that files of ours do not hold.
Element element_of(const at::Tensor& tensor, const std::string& name);

/// A CPU storage over `bytes` of `file`, which it keeps mapped; a copy when they are not 16-byte
/// aligned.
c10::Storage map_storage(const std::shared_ptr<MappedFile>& file, Bytes bytes);
at::Tensor tensor_over(c10::Storage storage, Element element, std::int64_t offset,
                       at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace alg
