// SPDX-License-Identifier: Apache-2.0
// Resuming: the newest whole file of a folder, and the newest state of all ranks.
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/files/atomic_file.h"
#include "common/training/distributed.h"
#include "common/training/state_impl.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/ranges.h>

#include <cstring>
#include <unordered_map>

namespace alg {
namespace {

/// Problems of one file, as many as fit in a message.
class Problems {
public:
    void add(std::string problem) {
        if (++count_ <= kShown) text_ += (text_.empty() ? "" : "; ") + std::move(problem);
    }
    void fail_if_any(const fs::path& file) const {
        if (count_ == 0) return;
        fail(
            "{} does not fit this training: {}{}; name another checkpoints folder, or train with "
            "the settings it was made with",
            file.string(), text_, count_ > kShown ? format("; and {} more", count_ - kShown) : "");
    }

private:
    static constexpr int kShown = 4;
    std::string text_;
    int count_ = 0;
};

std::string describe(const at::Tensor& tensor) {
    return format("{} [{}]", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

/// Finds the partner of every tensor of `into`; what has none, or one of another shape, is a
/// problem.
std::vector<at::Tensor> match(const NamedTensors& into, const NamedTensors& from,
                              Problems& problems) {
    std::unordered_map<std::string, at::Tensor> by_name(from.begin(), from.end());
    std::vector<at::Tensor> partners;
    for (const auto& [name, tensor] : into) {
        const auto found = by_name.find(name);
        if (found == by_name.end()) {
            problems.add(format("\"{}\" is not in it", name));
            continue;
        }
        if (found->second.sizes() != tensor.sizes() ||
            found->second.scalar_type() != tensor.scalar_type())
            problems.add(format("\"{}\" is {} in it and {} here", name, describe(found->second),
                                describe(tensor)));
        partners.push_back(found->second);
        by_name.erase(found);
    }
    for (const auto& [name, unused] : from)
        if (by_name.contains(name)) problems.add(format("\"{}\" is only in it", name));
    return partners;
}

void assign(const NamedTensors& into, const std::vector<at::Tensor>& from) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < into.size(); ++i) {
        at::Tensor target = into[i].second.detach();
        target.copy_(from[i]);
    }
}

NamedTensors named(const std::vector<Parameter>& parameters) {
    NamedTensors result;
    for (const Parameter& parameter : parameters)
        result.emplace_back(parameter.name, parameter.value);
    return result;
}

at::Tensor numbers(std::vector<std::int64_t> values, const at::Device& device) {
    return at::tensor(values, at::TensorOptions(at::kLong)).to(device);
}

}  // namespace

void StateKeeper::Impl::load(const State& state, const fs::path& file) {
    Problems problems;
    for (const auto& [key, expected] : options.must_match) {
        const auto found = state.position.texts.find(key);
        const std::string text = found == state.position.texts.end() ? "" : found->second;
        if (text != expected)
            problems.add(format("its {} is \"{}\", here it is \"{}\"", key, text, expected));
    }
    problems.fail_if_any(file);  // another program: its tensors would all be named, too
    const NamedTensors parameters = named(model), moments = optimizer.state();
    const auto values = match(parameters, state.model, problems);
    const auto states = match(moments, state.optimizer, problems);
    problems.fail_if_any(file);
    assign(parameters, values);
    assign(moments, states);
    optimizer.set_steps(state.steps);
}

std::optional<Position> StateKeeper::Impl::resume() {
    wait_until_idle();
    if (options.writer) remove_temporaries(options.folder);
    for (const auto& [path, update] : state_files(options.folder)) {
        std::optional<Value> value;
        try {
            value = read_torch(path);
        } catch (const std::exception& problem) {
            warn("{}; passed over, the checkpoint before it is tried", problem.what());
            damaged.insert(path);
            continue;
        }
        State state;
        try {
            state = decode(*value);
        } catch (const Failure& problem) {
            warn("{}: {}; passed over", path.string(), problem.what());
            continue;  // somebody's; it stays
        }
        load(state, path);
        last_update = state.position.update;
        saved = state.position;
        newest = update;
        return state.position;
    }
    return std::nullopt;
}

std::optional<Position> StateKeeper::resume() {
    return impl_->resume();
}

std::optional<Position> StateKeeper::resume(Group& group) {
    if (group.world() == 1) return resume();
    Impl& impl = *impl_;
    std::optional<Position> own;
    std::exception_ptr problem;
    try {
        own = impl.resume();
    } catch (const std::exception&) {
        problem = std::current_exception();
    }
    const std::int64_t failed = group.max(problem ? 1 : 0);
    if (problem) std::rethrow_exception(problem);
    if (failed > 0) fail("another rank cannot resume from its checkpoints; its message says why");
    const std::int64_t newest = group.max(own ? own->update : -1);
    if (newest < 0) return std::nullopt;
    const bool has_it = own && own->update == newest;
    const int last = group.world() - 1;
    const int root = last - static_cast<int>(group.max(has_it ? last - group.rank() : 0));

    const at::Device device =
        impl.model.empty() ? at::Device(at::kCPU) : impl.model[0].value.device();
    const std::string bytes = group.rank() == root ? pack(*own) : std::string();
    at::Tensor head =
        numbers({impl.optimizer.steps(), static_cast<std::int64_t>(bytes.size())}, device);
    group.broadcast(head, root);
    head = head.cpu();
    const auto steps = head[0].item<std::int64_t>(), size = head[1].item<std::int64_t>();
    at::Tensor body = at::zeros({size}, at::TensorOptions(at::kByte));
    std::memcpy(body.mutable_data_ptr(), bytes.data(), bytes.size());
    body = body.to(device);
    group.broadcast(body, root);
    body = body.cpu();

    const c10::NoGradGuard no_grad;
    for (const NamedTensors& tensors : {named(impl.model), impl.optimizer.state()}) {
        for (const auto& [name, tensor] : tensors) {
            at::Tensor target = tensor.detach();
            group.broadcast(target, root);
        }
    }
    impl.optimizer.set_steps(steps);
    const Position position = unpack(std::string(static_cast<const char*>(body.const_data_ptr()),
                                                 static_cast<std::size_t>(size)));
    impl.last_update = position.update;
    return position;
}

}  // namespace alg
