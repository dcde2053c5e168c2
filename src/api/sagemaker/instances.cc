// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/instances.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

struct SizeRow {
    std::string_view family, size;  ///< an empty size covers the family's others
    int count;
};

// From the public tables of EC2's accelerated instances. Families in order, exact sizes first.
constexpr SizeRow kSizes[] = {
    {"p2", "8xlarge", 8},    {"p2", "16xlarge", 16}, {"p2", "", 1},          {"p3", "8xlarge", 4},
    {"p3", "16xlarge", 8},   {"p3", "", 1},          {"p5", "4xlarge", 1},   {"p6e-gb200", "", 4},
    {"g4dn", "12xlarge", 4}, {"g4dn", "", 1},        {"g5", "12xlarge", 4},  {"g5", "24xlarge", 4},
    {"g5", "48xlarge", 8},   {"g6", "12xlarge", 4},  {"g6", "24xlarge", 4},  {"g6", "48xlarge", 8},
    {"g6e", "12xlarge", 4},  {"g6e", "24xlarge", 4}, {"g6e", "48xlarge", 8}, {"g7e", "12xlarge", 2},
    {"g7e", "24xlarge", 4},  {"g7e", "48xlarge", 8},
};

}  // namespace

Accelerators accelerators_of(std::string_view instance_type) {
    if (instance_type.starts_with("ml.")) instance_type.remove_prefix(3);
    const std::size_t dot = instance_type.find('.');
    const std::string_view family = instance_type.substr(0, dot);
    const std::string_view size = dot == family.npos ? "" : instance_type.substr(dot + 1);
    const auto numbered = [&](std::string_view prefix) {
        return family.starts_with(prefix) && family.size() > prefix.size() &&
               family[prefix.size()] >= '0' && family[prefix.size()] <= '9';
    };
    if (numbered("trn") || numbered("inf")) return {Accelerator::neuron, 1};
    if (!numbered("p") && !numbered("g")) return {};
    const auto* row = std::ranges::find_if(kSizes, [&](const SizeRow& candidate) {
        return candidate.family == family && (candidate.size.empty() || candidate.size == size);
    });
    if (row != std::end(kSizes)) return {Accelerator::gpu, row->count};
    // p3dn, p4d, p5e, p6-b200 … come with eight; small sizes of g families with one.
    return {Accelerator::gpu, family.front() == 'p' ? 8 : 1};
}

}  // namespace ty::api::sagemaker
