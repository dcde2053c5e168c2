// SPDX-License-Identifier: Apache-2.0
#define ALG_VARIANT plain
#define ALG_NAME "plain"
#define ALG_WIDTH 4
#include "transformer/vector_kernels_impl.h"
