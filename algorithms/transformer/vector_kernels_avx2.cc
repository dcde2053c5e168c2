// SPDX-License-Identifier: Apache-2.0
#define ALG_VARIANT avx2
#define ALG_NAME "avx2"
#define ALG_WIDTH 8
#include "transformer/vector_kernels_impl.h"
