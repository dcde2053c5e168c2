// SPDX-License-Identifier: Apache-2.0
// What is wrong with a request, collected instead of stopping at the first thing.
#pragma once

#include "base/error.h"

#include <string>
#include <vector>

namespace ty::api::sagemaker {

class Findings {
public:
    void add(std::string path, std::string message) {
        problems_.push_back({std::move(path), std::move(message)});
    }
    /// Run fn; a user's mistake it throws becomes a finding. Failures of ours pass through.
    template <typename Fn>
    void collect(const std::string& path, Fn&& fn) {
        try {
            fn();
        } catch (const Error& error) {
            if (error.code() != Code::invalid && error.code() != Code::unsupported &&
                error.code() != Code::not_found)
                throw;
            add(path, error.message());
        }
    }
    std::vector<Problem> take() { return std::move(problems_); }
    std::size_t size() const { return problems_.size(); }

private:
    std::vector<Problem> problems_;
};

}  // namespace ty::api::sagemaker
