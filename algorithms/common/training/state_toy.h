// SPDX-License-Identifier: Apache-2.0
// For the tests of training states: a model whose every number tells after which update it was
// taken, so that a state mixed from two updates shows.
#pragma once

#include "common/base/random.h"
#include "common/training/state.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

namespace alg::toy {

inline std::span<float> floats(const at::Tensor& tensor) {
    return {static_cast<float*>(tensor.mutable_data_ptr()),
            static_cast<std::size_t>(tensor.numel())};
}

struct Model : Module {
    explicit Model(std::int64_t width = 20'000, std::int64_t extra = 7) {
        add("embedding.weight", {width});
        add("layer.weight", {width / 10, 3});
        add("layer.bias", {extra});
        add("nothing", {0});
    }
    void add(const std::string& name, at::IntArrayRef shape) {
        parameter(name, at::zeros(shape, at::TensorOptions(at::kFloat)));
    }
};

/// counted: every parameter is the number of steps, every moment its double. Otherwise both walk on
/// a path that depends on each step before, as in training.
class Optimizer final : public alg::Optimizer {
public:
    Optimizer(std::vector<Parameter> parameters, bool counted = true)
        : parameters_(std::move(parameters)), counted_(counted) {
        for (const Parameter& parameter : parameters_)
            moments_.push_back(at::zeros(parameter.value.sizes(), at::TensorOptions(at::kFloat)));
    }
    void step(double, double) override {
        ++steps_;
        Random random(key_of(1, steps_));
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            const auto values = floats(parameters_[i].value), moments = floats(moments_[i]);
            for (std::size_t k = 0; k < values.size(); ++k) {
                if (counted_) {
                    values[k] = static_cast<float>(steps_);
                    moments[k] = static_cast<float>(2 * steps_);
                } else {
                    moments[k] = 0.9F * moments[k] + random.uniform() - 0.4F * values[k];
                    values[k] += 0.1F * moments[k];
                }
            }
        }
    }
    std::vector<std::pair<std::string, at::Tensor>> state() const override {
        std::vector<std::pair<std::string, at::Tensor>> all;
        for (std::size_t i = 0; i < moments_.size(); ++i)
            all.emplace_back("moment." + parameters_[i].name, moments_[i]);
        return all;
    }
    std::int64_t steps() const override { return steps_; }
    void set_steps(std::int64_t steps) override { steps_ = steps; }

private:
    std::vector<Parameter> parameters_;
    std::vector<at::Tensor> moments_;
    bool counted_;
    std::int64_t steps_ = 0;
};

/// Everything that trains, with its keeper.
struct Training {
    explicit Training(StateOptions options, bool counted = true, std::int64_t width = 20'000,
                      std::int64_t extra = 7)
        : model(width, extra),
          optimizer(model.parameters(), counted),
          keeper(std::move(options), model.parameters(), optimizer) {}

    bool resume() {
        const auto found = keeper.resume();
        if (found) position = *found;
        return found.has_value();
    }
    /// One update, as a program makes it.
    void update() {
        keeper.before_step();
        optimizer.step(0, 1);
        ++position.update;
        position.samples += 10;
        position.numbers["mean"] = static_cast<double>(position.update) / 3;
        position.texts["program"] = "toy";
        position.loss_scale = {static_cast<double>(position.update), 1};
        keeper.after_update(position);
    }
    /// The state is complete and of one update.
    bool is_of(std::int64_t update) const {
        const auto all = [](const at::Tensor& tensor, std::int64_t number) {
            const auto values = floats(tensor);
            return std::all_of(values.begin(), values.end(), [number](float value) {
                return value == static_cast<float>(number);
            });
        };
        for (const Parameter& parameter : model.parameters())
            if (!all(parameter.value, update)) return false;
        for (const auto& [name, tensor] : optimizer.state())
            if (!all(tensor, 2 * update)) return false;
        return optimizer.steps() == update && position.update == update &&
               position.samples == 10 * update &&
               (update == 0 || position.numbers.at("mean") == static_cast<double>(update) / 3);
    }

    Model model;
    Optimizer optimizer;
    StateKeeper keeper;
    Position position;
};

inline std::string bytes_of(const fs::path& file) {
    std::string bytes(fs::file_size(file), '\0');
    std::ifstream(file, std::ios::binary)
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
}

class Folder {
public:
    Folder() {
        std::string name = (fs::temp_directory_path() / "trainyard-state-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const fs::path& path() const { return path_; }
    /// Names of everything in it, sorted.
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& entry : fs::directory_iterator(path_))
            all.push_back(entry.path().filename().string());
        std::sort(all.begin(), all.end());
        return all;
    }

private:
    fs::path path_;
};

}  // namespace alg::toy
