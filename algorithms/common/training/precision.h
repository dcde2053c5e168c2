// SPDX-License-Identifier: Apache-2.0
// Numeric precision of a pass: float32, or autocast to bfloat16 or float16 with a loss scale.
#pragma once

#include <torch/types.h>

#include <string>

namespace alg {

enum class Precision { float32, bfloat16, float16 };
/// "fp32", "bf16", "fp16"; throws Failure with the choices.
Precision parse_precision(const std::string& text);

/// Autocast while it lives; nothing for float32. Not nestable; one thread.
class AutocastScope {
public:
    AutocastScope(Precision precision, torch::Device device);
    ~AutocastScope();
    AutocastScope(const AutocastScope&) = delete;
    AutocastScope& operator=(const AutocastScope&) = delete;

private:
    bool active_;
    torch::DeviceType type_;
    bool was_enabled_;
    torch::ScalarType old_dtype_;
};

/// Dynamic loss scaling by ERNIE's rule: 102400 at first, times 2 after 100 good updates, times 0.8
/// after 2 bad ones in a row. Fixed 1 unless float16.
class LossScale {
public:
    explicit LossScale(Precision precision);
    double value() const { return scale_; }
    void update(bool finite);
    // For the training state.
    std::vector<double> save() const;
    void restore(const std::vector<double>& saved);

private:
    bool dynamic_;
    double scale_;
    int good_ = 0, bad_ = 0;
};

}  // namespace alg
