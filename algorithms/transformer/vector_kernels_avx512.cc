// SPDX-License-Identifier: Apache-2.0
#define ALG_VARIANT avx512
#define ALG_NAME "avx512"
#define ALG_WIDTH 16
#include "transformer/vector_kernels_impl.h"
