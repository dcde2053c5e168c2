// SPDX-License-Identifier: Apache-2.0
// Trained models as TorchScript that torch.jit.load runs in Python, defined from C++: a tree of
// modules whose parameters are the trained tensors themselves, and their methods as source text.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace alg {

/// Builds one torch::jit::Module; children first, then define().
class ScriptModel {
public:
    /// `type`: unique name of the class in the archive, e.g. "ErnieEncoder".
    explicit ScriptModel(const std::string& type);
    void tensor(const std::string& name, const at::Tensor& value);  ///< a parameter
    void buffer(const std::string& name, const at::Tensor& value);
    void constant(const std::string& name,
                  const c10::IValue& value);  ///< attribute: int, float, bool, str
    void child(const std::string& name, const ScriptModel& module);
    /// A fully connected layer: `forward(x)` is linear(x, weight, bias), or its int8 form when
    /// quantised.
    void linear(const std::string& name, const at::Tensor& weight, const at::Tensor& bias,
                bool quantised);
    /// TorchScript methods ("def forward(self, …) -> Tensor: …"); may call self.<child>.forward(…),
    /// torch.*, quantized.*.
    void define(const std::string& source);
    torch::jit::Module module() const { return module_; }

private:
    torch::jit::Module module_;
};

/// Saves atomically, loads the file again, runs `forward` of both on `inputs` and compares with
/// `expected` (outputs of the trained model): throws Failure when they differ by more than
/// `tolerance`. Returns the difference.
double save_checked(const torch::jit::Module& module, const std::filesystem::path& file,
                    const std::vector<c10::IValue>& inputs, const std::vector<at::Tensor>& expected,
                    double tolerance);

}  // namespace alg
