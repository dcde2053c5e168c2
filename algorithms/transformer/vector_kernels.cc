// SPDX-License-Identifier: Apache-2.0
#include "transformer/vector_kernels.h"

#include <string_view>

namespace alg {

namespace plain {
extern const VectorKernels kKernels;
}
#ifdef __x86_64__
namespace avx2 {
extern const VectorKernels kKernels;
}
namespace avx512 {
extern const VectorKernels kKernels;
}
#endif

const VectorKernels* vector_kernels(const char* name) {
    const std::string_view wanted = name;
#ifdef __x86_64__
    if (wanted == "avx512") {
        return __builtin_cpu_supports("x86-64-v4") != 0 ? &avx512::kKernels : nullptr;
    }
    if (wanted == "avx2") {
        return __builtin_cpu_supports("x86-64-v3") != 0 ? &avx2::kKernels : nullptr;
    }
#endif
    return wanted == "plain" ? &plain::kKernels : nullptr;
}

const VectorKernels& vector_kernels() {
    for (const char* name : {"avx512", "avx2"}) {
        if (const VectorKernels* found = vector_kernels(name)) {
            return *found;
        }
    }
    return plain::kKernels;
}

}  // namespace alg
