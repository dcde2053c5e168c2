// SPDX-License-Identifier: Apache-2.0
#include "transformer/packed.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace alg {

namespace {

// Where token t of the packed form lies in the padded one, flattened: int64 [tokens].
torch::Tensor padded_places(const Packed& shape, torch::Device device) {
    torch::Tensor places = at::empty({shape.tokens()}, at::kLong);
    auto* out = places.data_ptr<std::int64_t>();
    const auto* offsets = shape.offsets.data_ptr<std::int64_t>();
    for (std::int64_t s = 0; s < shape.sequences(); ++s) {
        for (std::int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
            *out++ = s * shape.longest + t - offsets[s];
        }
    }
    return places.to(device);
}

}  // namespace

Packed packed(std::span<const std::int32_t> lengths) {
    Packed result;
    result.offsets = at::empty({static_cast<std::int64_t>(lengths.size()) + 1}, at::kLong);
    auto* offsets = result.offsets.data_ptr<std::int64_t>();
    std::int64_t sum = 0;
    *offsets++ = 0;
    for (const std::int32_t length : lengths) {
        sum += length;
        *offsets++ = sum;
        result.longest = std::max<std::int64_t>(result.longest, length);
    }
    return result;
}

torch::Tensor pad(const torch::Tensor& tokens, const Packed& shape, double fill) {
    auto sizes = tokens.sizes().vec();
    sizes[0] = shape.sequences() * shape.longest;
    const torch::Tensor flat = at::full(sizes, fill, tokens.options())
                                   .index_copy(0, padded_places(shape, tokens.device()), tokens);
    sizes[0] = shape.longest;
    sizes.insert(sizes.begin(), shape.sequences());
    return flat.view(sizes);
}

torch::Tensor unpad(const torch::Tensor& padded, const Packed& shape) {
    auto sizes = padded.sizes().vec();
    sizes.erase(sizes.begin());
    sizes[0] = shape.sequences() * shape.longest;
    return padded.reshape(sizes).index_select(0, padded_places(shape, padded.device()));
}

}  // namespace alg
