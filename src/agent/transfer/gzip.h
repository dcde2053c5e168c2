// SPDX-License-Identifier: Apache-2.0
// Gzip writing, as fast as the machine allows: ISA-L's igzip when its library is installed (found
// at run time, so that the agent does not depend on it), else zlib at level 1.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace ty::agent {

class GzipWriter {
public:
    using Sink = std::function<void(std::string_view)>;
    enum class Codec { best, zlib };

    explicit GzipWriter(Sink sink, Codec codec = Codec::best);
    ~GzipWriter();
    GzipWriter(const GzipWriter&) = delete;
    GzipWriter& operator=(const GzipWriter&) = delete;

    void write(std::string_view data);
    /// Trailer; nothing may be written after it.
    void finish();
    /// "isa-l" or "zlib".
    std::string_view codec() const;

private:
    class Engine;
    class Isal;
    class Zlib;
    std::unique_ptr<Engine> engine_;
};

}  // namespace ty::agent
