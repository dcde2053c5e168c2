// SPDX-License-Identifier: Apache-2.0
// Identifiers and secrets. Ids is an interface so that tests get the same names every run (R15).
#pragma once

#include <cstdint>
#include <string>

namespace ty {

class Ids {
public:
    virtual ~Ids() = default;
    /// 128 random bits as a UUID: request ids, upload ids.
    virtual std::string uuid() = 0;
    /// `length` characters of lower-case base32 from the system's generator; fit for secrets.
    virtual std::string token(std::size_t length) = 0;
};

/// getrandom(2); any thread.
class SystemIds final : public Ids {
public:
    std::string uuid() override;
    std::string token(std::size_t length) override;
};

/// Reproducible sequence from a seed; one thread.
class SeededIds final : public Ids {
public:
    explicit SeededIds(std::uint64_t seed) : state_(seed) {}
    std::string uuid() override;
    std::string token(std::size_t length) override;

private:
    std::uint64_t next();
    std::uint64_t state_;
};

}  // namespace ty
