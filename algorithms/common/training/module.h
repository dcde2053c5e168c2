// SPDX-License-Identifier: Apache-2.0
// The smallest module that serves: named parameters in a fixed order. Its names are the names in
// files. Trainable layers derive from it; forward functions are ordinary members.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace alg {

struct Parameter {
    std::string name;
    torch::Tensor value;  ///< requires_grad
    bool decay = true;    ///< weight decay applies (not to biases and layer norms)
};

class Module {
public:
    Module() = default;
    virtual ~Module() = default;
    Module(const Module&) = delete;  // children are referred to by address
    Module& operator=(const Module&) = delete;

    /// All parameters, own first, then children in order of registration; names joined by ".". A
    /// tensor registered twice (weight sharing) is listed once, under its first name.
    std::vector<Parameter> parameters() const;
    std::int64_t parameter_count() const;

protected:
    /// Leaf tensor that requires grad.
    torch::Tensor& parameter(const std::string& name, torch::Tensor value, bool decay = true);
    void child(const std::string& name, Module& module);

private:
    void collect(const std::string& prefix, std::vector<Parameter>& into) const;

    std::vector<std::unique_ptr<Parameter>> own_;
    std::vector<std::pair<std::string, Module*>> children_;
};

/// Copies `from` into the parameters by name, in place. Throws Failure naming all that are missing,
/// left over (unless allowed) or of another shape (both shapes).
struct LoadOptions {
    bool allow_missing = false, allow_extra = false;
};
struct LoadReport {
    std::vector<std::string> missing, extra;
};
LoadReport load_parameters(const std::vector<Parameter>& into,
                           const std::vector<std::pair<std::string, torch::Tensor>>& from,
                           const std::string& origin, LoadOptions options = {});

/// Moves parameters in place; everything that refers to them follows.
void move_to(const Module& model, torch::Device device);

/// Truncated normal (two standard deviations) of the key; the same on every machine and rank.
torch::Tensor truncated_normal(torch::IntArrayRef shape, double deviation, std::uint64_t key);
torch::Tensor normal(torch::IntArrayRef shape, double deviation, std::uint64_t key);

/// What a forward pass needs to know besides its input.
struct Pass {
    bool training = false;
    /// Keys this pass's dropout: key_of(seed, epoch, micro-batch number). Every use takes
    /// next_site().
    std::uint64_t key = 0;
    std::uint64_t site = 0;
    std::uint64_t next_site() { return site++; }
};

}  // namespace alg
