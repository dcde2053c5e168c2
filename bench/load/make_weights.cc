// SPDX-License-Identifier: Apache-2.0
// deps: ty_base ty_sys
// Writes normally distributed float32 weights: what a trained model's file is made of.
// Usage: bench_make_weights FILE BYTES
#include "sys/sys.h"

#include <fcntl.h>

#include <cstdlib>
#include <random>
#include <vector>

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    std::mt19937 random(1);
    std::normal_distribution<float> weights(0.0F, 0.02F);
    std::vector<float> block(1 << 22);
    for (float& value : block) value = weights(random);
    const auto file = ty::sys::open_write(argv[1], O_TRUNC);
    for (long long left = std::atoll(argv[2]); left > 0;
         left -= (long long)(block.size() * sizeof(float))) {
        block[std::size_t(left) % block.size()] +=
            1.0F;  // blocks are not identical; 16 MiB is far beyond any window
        ty::sys::write_all(file.get(), std::as_bytes(std::span(block)));
    }
}
