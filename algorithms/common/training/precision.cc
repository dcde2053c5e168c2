// SPDX-License-Identifier: Apache-2.0
#include "common/training/precision.h"

#include "common/base/error.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <cmath>

namespace alg {

namespace {

// LibTorch 2.4 gave the autocast functions a device argument; before, every device had its own.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
bool enabled(torch::DeviceType type) {
    return at::autocast::is_autocast_enabled(type);
}
void enable(torch::DeviceType type, bool on) {
    at::autocast::set_autocast_enabled(type, on);
}
torch::ScalarType dtype(torch::DeviceType type) {
    return at::autocast::get_autocast_dtype(type);
}
void set_dtype(torch::DeviceType type, torch::ScalarType to) {
    at::autocast::set_autocast_dtype(type, to);
}
#else
bool enabled(torch::DeviceType type) {
    return type == torch::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void enable(torch::DeviceType type, bool on) {
    type == torch::kCPU ? at::autocast::set_cpu_enabled(on) : at::autocast::set_enabled(on);
}
torch::ScalarType dtype(torch::DeviceType type) {
    return type == torch::kCPU ? at::autocast::get_autocast_cpu_dtype()
                               : at::autocast::get_autocast_gpu_dtype();
}
void set_dtype(torch::DeviceType type, torch::ScalarType to) {
    type == torch::kCPU ? at::autocast::set_autocast_cpu_dtype(to)
                        : at::autocast::set_autocast_gpu_dtype(to);
}
#endif

constexpr double kFirstScale = 102400, kGrowth = 2, kShrink = 0.8, kLargest = 0x1p100;
constexpr int kGoodInRow = 100, kBadInRow = 2;

}  // namespace

Precision parse_precision(const std::string& text) {
    if (text == "fp32") return Precision::float32;
    if (text == "bf16") return Precision::bfloat16;
    if (text == "fp16") return Precision::float16;
    fail("precision \"{}\" is unknown; use fp32, bf16 or fp16", text);
}

AutocastScope::AutocastScope(Precision precision, torch::Device device)
    : active_(precision != Precision::float32),
      type_(device.type()),
      was_enabled_(false),
      old_dtype_(torch::kFloat) {
    if (!active_) {
        return;
    }
    was_enabled_ = enabled(type_);
    old_dtype_ = dtype(type_);
    set_dtype(type_, precision == Precision::bfloat16 ? torch::kBFloat16 : torch::kHalf);
    enable(type_, true);
    at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
    if (!active_) {
        return;
    }
    // The cache holds casts of the parameters, which the next update changes.
    if (at::autocast::decrement_nesting() == 0) {
        at::autocast::clear_cache();
    }
    enable(type_, was_enabled_);
    set_dtype(type_, old_dtype_);
}

LossScale::LossScale(Precision precision)
    : dynamic_(precision == Precision::float16), scale_(dynamic_ ? kFirstScale : 1) {}

void LossScale::update(bool finite) {
    if (!dynamic_) {
        return;
    }
    good_ = finite ? good_ + 1 : 0;
    bad_ = finite ? 0 : bad_ + 1;
    if (good_ == kGoodInRow) {
        scale_ = std::min(scale_ * kGrowth, kLargest);
        good_ = 0;
    }
    if (bad_ == kBadInRow) {
        scale_ = std::max(scale_ * kShrink, 1.0);
        bad_ = 0;
    }
}

std::vector<double> LossScale::save() const {
    return {scale_, static_cast<double>(good_), static_cast<double>(bad_)};
}

void LossScale::restore(const std::vector<double>& saved) {
    // A state of a run in another precision carries nothing of use.
    if (!dynamic_ || saved.size() != 3 || !std::isfinite(saved[0]) || saved[0] < 1) {
        return;
    }
    scale_ = saved[0];
    good_ = static_cast<int>(saved[1]);
    bad_ = static_cast<int>(saved[2]);
}

}  // namespace alg
