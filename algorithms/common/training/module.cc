// SPDX-License-Identifier: Apache-2.0
// Parameters by name, loading them, and their first values.
#include "common/training/module.h"

#include "common/base/error.h"
#include "common/base/random.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>
#include <map>
#include <numbers>
#include <unordered_set>

namespace alg {

namespace {

struct Visit {
    std::vector<Parameter> found;
    std::unordered_set<const void*> seen;
};

std::string shape_text(torch::IntArrayRef shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += (i ? ", " : "") + std::to_string(shape[i]);
    }
    return text + "]";
}

/// At most a dozen lines: a file of another model has hundreds.
std::string listed(const std::vector<std::string>& problems) {
    constexpr std::size_t kShown = 12;
    std::string text;
    for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i) {
        text += "\n  " + problems[i];
    }
    if (problems.size() > kShown) {
        text += format("\n  and {} more", problems.size() - kShown);
    }
    return text;
}

/// Two independent standard normal numbers by Box-Muller.
std::pair<double, double> normal_pair(Random& random) {
    // In (0, 1], so that the logarithm is finite.
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(random() >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Elements 2i and 2i + 1 come from the stream of (key, i), so that any thread can make any of
/// them.
torch::Tensor filled(torch::IntArrayRef shape, double deviation, std::uint64_t key, double limit) {
    torch::Tensor result = at::empty(shape, at::kFloat);
    float* const out = result.mutable_data_ptr<float>();
    const std::int64_t size = result.numel();
    at::parallel_for(0, (size + 1) / 2, 4096, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            Random random(mix(key ^ mix(static_cast<std::uint64_t>(i))));
            auto [a, b] = normal_pair(random);
            while (std::abs(a) > limit) {
                a = normal_pair(random).first;
            }
            while (std::abs(b) > limit) {
                b = normal_pair(random).second;
            }
            out[2 * i] = static_cast<float>(a * deviation);
            if (2 * i + 1 < size) {
                out[2 * i + 1] = static_cast<float>(b * deviation);
            }
        }
    });
    return result;
}

}  // namespace

std::vector<Parameter> Module::parameters() const {
    Visit visit;
    collect("", visit.found);
    // The same tensor under a second name is shared weights: one parameter, one gradient.
    std::erase_if(visit.found, [&visit](const Parameter& parameter) {
        return !visit.seen.insert(parameter.value.unsafeGetTensorImpl()).second;
    });
    return std::move(visit.found);
}

void Module::collect(const std::string& prefix, std::vector<Parameter>& into) const {
    for (const auto& own : own_) {
        into.push_back({prefix + own->name, own->value, own->decay});
    }
    for (const auto& [name, module] : children_) {
        module->collect(prefix + name + ".", into);
    }
}

std::int64_t Module::parameter_count() const {
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters()) {
        count += parameter.value.numel();
    }
    return count;
}

torch::Tensor& Module::parameter(const std::string& name, torch::Tensor value, bool decay) {
    // A shared tensor is a leaf already; anything else is cut from where it came from.
    torch::Tensor leaf =
        value.is_leaf() && value.requires_grad() ? value : value.detach().requires_grad_(true);
    own_.push_back(std::make_unique<Parameter>(Parameter{name, std::move(leaf), decay}));
    return own_.back()->value;
}

void Module::child(const std::string& name, Module& module) {
    children_.emplace_back(name, &module);
}

LoadReport load_parameters(const std::vector<Parameter>& into,
                           const std::vector<std::pair<std::string, torch::Tensor>>& from,
                           const std::string& origin, LoadOptions options) {
    std::map<std::string, torch::Tensor> given(from.begin(), from.end());
    std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
    std::vector<std::string> problems;
    LoadReport report;
    for (const Parameter& parameter : into) {
        const auto found = given.find(parameter.name);
        if (found == given.end()) {
            report.missing.push_back(parameter.name);
            continue;
        }
        const torch::Tensor source = std::move(found->second);
        given.erase(found);
        if (source.sizes() != parameter.value.sizes()) {
            problems.push_back(format("\"{}\" has the shape {}, the model needs {}", parameter.name,
                                      shape_text(source.sizes()),
                                      shape_text(parameter.value.sizes())));
        } else if (!at::isFloatingType(source.scalar_type())) {
            problems.push_back(format("\"{}\" has the type {}, the model needs floating point",
                                      parameter.name, at::toString(source.scalar_type())));
        } else {
            copies.emplace_back(parameter.value, source);
        }
    }
    for (const auto& [name, tensor] : given) {
        report.extra.push_back(name);
    }
    if (!options.allow_missing) {
        for (const std::string& name : report.missing) {
            problems.push_back(format("\"{}\" is missing", name));
        }
    }
    if (!options.allow_extra) {
        for (const std::string& name : report.extra) {
            problems.push_back(format("\"{}\" is no parameter of this model", name));
        }
    }
    if (!problems.empty()) {
        fail("{} does not fit the model ({} problems); use a file of the same configuration:{}",
             origin, problems.size(), listed(problems));
    }
    // All or nothing: nothing was written before everything was found to fit.
    const torch::NoGradGuard no_grad;
    for (auto& [target, source] : copies) {
        target.copy_(source);
    }
    return report;
}

torch::Tensor truncated_normal(torch::IntArrayRef shape, double deviation, std::uint64_t key) {
    return filled(shape, deviation, key, 2);
}

torch::Tensor normal(torch::IntArrayRef shape, double deviation, std::uint64_t key) {
    return filled(shape, deviation, key, std::numeric_limits<double>::infinity());
}

void move_to(const Module& model, torch::Device device) {
    if (device.is_cpu()) return;
    for (const Parameter& parameter : model.parameters()) {
        torch::Tensor value = parameter.value;  // the same tensor, whoever holds it
        value.set_data(value.detach().to(device));
    }
}

}  // namespace alg
