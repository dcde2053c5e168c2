// SPDX-License-Identifier: Apache-2.0
// For the parity test with Python: reads a file of tensors with this library and writes it again.
//   files_tool torch IN OUT | safetensors IN OUT | weights IN OUT (safetensors)
#include "common/base/error.h"
#include "common/files/tensors.h"

#include <cstdio>
#include <string_view>

namespace {

int run(std::string_view what, const char* from, const char* to) {
    using namespace alg;
    if (what == "torch") {
        write_torch(to, read_torch(from));
    } else if (what == "safetensors") {
        std::map<std::string, std::string> metadata;
        const NamedTensors tensors = read_safetensors(from, &metadata);
        write_safetensors(to, tensors, metadata);
    } else if (what == "weights") {
        write_safetensors(to, read_weights(from));
    } else {
        fail("\"{}\" is none of torch, safetensors, weights", what);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 4) alg::fail("usage: files_tool torch|safetensors|weights IN OUT");
        return run(argv[1], argv[2], argv[3]);
    } catch (const alg::Failure& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
}
