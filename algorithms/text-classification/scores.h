// SPDX-License-Identifier: Apache-2.0
// What a confusion matrix tells. Pure, free of LibTorch.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace alg {

/// Counts of samples by true class (rows) and predicted class (columns), and the loss's sum. What
/// several processes counted is summed over numbers().
class Confusion {
public:
    explicit Confusion(std::size_t classes) : classes_(classes), numbers_(classes * classes + 1) {}
    void add(std::int64_t truth, std::int64_t predicted) {
        numbers_[static_cast<std::size_t>(truth) * classes_ +
                 static_cast<std::size_t>(predicted)] += 1;
    }
    void add_loss(double sum) { numbers_.back() += sum; }
    std::vector<double>& numbers() { return numbers_; }

    std::size_t classes() const { return classes_; }
    double count(std::size_t truth, std::size_t predicted) const {
        return numbers_[truth * classes_ + predicted];
    }
    double samples() const;
    double loss() const;  ///< mean over the samples
    double accuracy() const;
    // 0 where they are not defined, as scikit-learn has them.
    double precision(std::size_t label) const;
    double recall(std::size_t label) const;
    double f1(std::size_t label) const;
    double macro_f1() const;  ///< mean over the classes
    /// Of class 1 for two classes; else the mean over the classes.
    double f1() const { return classes_ == 2 ? f1(1) : macro_f1(); }

private:
    double row(std::size_t truth) const;
    double column(std::size_t predicted) const;

    std::size_t classes_;
    std::vector<double> numbers_;
};

/// {"accuracy", "f1", "macro_f1", "loss", "samples", "confusion_matrix", "classes": […]}
nlohmann::json to_json(const Confusion& confusion, const std::vector<std::string>& labels);
/// A number as Python prints it: 1.0, 0.8275.
std::string python_number(double value);

}  // namespace alg
