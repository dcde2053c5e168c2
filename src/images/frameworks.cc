// SPDX-License-Identifier: Apache-2.0
// AWS's framework images and what a Python must be able to import to stand in for each. Repository
// names are those the SageMaker SDKs look up; accounts and tags differ by region and do not matter.
#include "images/images.h"

namespace ty::images {

std::vector<Definition> aws_framework_definitions() {
    const auto row = [](std::string name, std::vector<std::string> match,
                        std::vector<std::string> modules) {
        return Definition{.name = std::move(name),
                          .match = std::move(match),
                          .requires_modules = std::move(modules)};
    };
    return {
        row("pytorch", {"*/pytorch-training:*", "*/sagemaker-pytorch:*"}, {"torch"}),
        row("tensorflow", {"*/tensorflow-training:*", "*/sagemaker-tensorflow*:*"}, {"tensorflow"}),
        row("huggingface-pytorch",
            {"*/huggingface-pytorch-training*:*", "*/huggingface-pytorch-trcomp-training:*"},
            {"torch", "transformers"}),
        row("huggingface-tensorflow", {"*/huggingface-tensorflow-training*:*"},
            {"tensorflow", "transformers"}),
        row("pytorch-neuron", {"*/pytorch-training-neuron*:*"}, {"torch", "torch_neuronx"}),
        row("scikit-learn", {"*/sagemaker-scikit-learn:*"}, {"sklearn"}),
        row("xgboost", {"*/sagemaker-xgboost:*", "*/xgboost:*"}, {"xgboost"}),
        row("mxnet", {"*/mxnet-training:*", "*/sagemaker-mxnet*:*"}, {"mxnet"}),
        row("chainer", {"*/sagemaker-chainer:*"}, {"chainer"}),
        // The host's own system, no framework: shell programs and whatever is installed.
        {.name = "host", .match = {"trainyard/host", "trainyard/host:*"}, .toolkit = false},
        {.name = "python", .match = {"trainyard/python", "trainyard/python:*"}},
    };
}

}  // namespace ty::images
