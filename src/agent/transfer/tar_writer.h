// SPDX-License-Identifier: Apache-2.0
// A tar stream from a tree: ustar headers, pax records where a name, a link or a size does not fit.
// The same tree gives the same bytes; owner and group are root.
#pragma once

#include "agent/transfer/tree.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

class TarWriter {
public:
    using Sink = std::function<void(std::string_view)>;
    explicit TarWriter(Sink sink) : sink_(std::move(sink)) {}

    void header(const TreeEntry& entry);
    /// Content of the file just announced, in pieces that add up to its size.
    void content(std::string_view data) { sink_(data); }
    /// After the content: up to the next block.
    void pad(std::uint64_t size);
    /// The two empty blocks at the end.
    void finish();

private:
    Sink sink_;
};

/// An open tar has no end mark: another may be put behind it.
enum class TarEnd { marked, open };

/// The whole tree as tar. A file that shrank meanwhile is filled up with zeros, one that grew is
/// cut at the size announced; both are said through `warn`. `progress` gets source bytes as they
/// are read.
void write_tar(const sys::fs::path& root, const std::vector<TreeEntry>& entries,
               const TarWriter::Sink& sink, const std::function<void(std::string)>& warn,
               const std::function<void(std::uint64_t)>& progress, TarEnd end = TarEnd::marked);

}  // namespace ty::agent
