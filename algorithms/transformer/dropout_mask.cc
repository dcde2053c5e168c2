// SPDX-License-Identifier: Apache-2.0
#include "transformer/dropout_mask.h"

#include "common/base/error.h"
#include "common/base/random.h"

#include <ATen/ATen.h>

#include <cmath>

namespace alg {

DropoutMask DropoutMask::of(double p, Pass& pass) {
    if (!(p >= 0 && p < 1)) {
        fail("dropout probability {} is not in [0, 1)", p);
    }
    const std::uint64_t site = pass.next_site();
    DropoutMask mask;
    const auto threshold = static_cast<std::uint32_t>(std::lround(p * 65536));
    if (!pass.training || threshold == 0 || threshold > 65535) {
        return mask;
    }
    const std::uint64_t key = key_of(pass.key, site);
    mask.key0 = static_cast<std::uint32_t>(key);
    mask.key1 = static_cast<std::uint32_t>(key >> 32);
    mask.threshold = threshold;
    mask.scale = 65536.0F / static_cast<float>(65536 - threshold);
    return mask;
}

torch::Tensor DropoutMask::of_numbers(const torch::Tensor& numbers) const {
    // 32-bit arithmetic in int64: products are taken modulo 2^64, whose lower half is right.
    const auto low = [](const torch::Tensor& x) { return x.bitwise_and(0xFFFFFFFFLL); };
    const auto shifted = [](const torch::Tensor& x, std::int64_t bits) {
        return at::bitwise_right_shift(x, bits);
    };
    torch::Tensor x = low(at::bitwise_left_shift(shifted(numbers, 5), 4) + numbers.bitwise_and(15) +
                          static_cast<std::int64_t>(key0));
    x = low(x.bitwise_xor(shifted(x, 16)) * 0x7FEB352DLL);
    x = low(x.bitwise_xor(static_cast<std::int64_t>(key1)).bitwise_xor(shifted(x, 15)) *
            0x846CA68BLL);
    x = x.bitwise_xor(shifted(x, 16));
    const torch::Tensor upper = numbers.bitwise_and(16).ne(0);
    const torch::Tensor half = at::where(upper, shifted(x, 16), x.bitwise_and(0xFFFF));
    return half.ge(static_cast<std::int64_t>(threshold)).to(at::kFloat).mul(scale);
}

}  // namespace alg
