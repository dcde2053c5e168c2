// SPDX-License-Identifier: Apache-2.0
#include "transformer/start.h"

#include "common/base/log.h"
#include "transformer/encoder.h"

#include <algorithm>

namespace alg {

namespace {

std::string names_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
        text += (i > 0 ? ", " : "") + names[i];
    return names.size() > kShown ? text + format(" and {} more", names.size() - kShown) : text;
}

}  // namespace

void start_from(const std::vector<Parameter>& parameters, const NamedTensors& weights,
                const std::string& name, bool speaks) {
    const LoadReport report = load_parameters(parameters, from_hugging_face(weights), name,
                                              {.allow_missing = true, .allow_extra = true});
    const std::size_t all = parameters.size();
    if (report.missing.size() == all)
        fail("{} has none of this model's parameters; is it the weights of a BERT or ERNIE model?",
             name);
    if (!speaks) return;
    say("starts from {}: {} of {} parameters", name, all - report.missing.size(), all);
    if (!report.missing.empty()) say("new, not in it: {}", names_of(report.missing));
    if (!report.extra.empty()) say("in it and not used: {}", names_of(report.extra));
}

}  // namespace alg
