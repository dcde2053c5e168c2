// SPDX-License-Identifier: Apache-2.0
// What random numbers are drawn for: one part of each key, so that no two uses meet.
#pragma once

namespace alg {

enum class Purpose { files, mask_type, masking, pairs, plan, dropout, weights };

}  // namespace alg
