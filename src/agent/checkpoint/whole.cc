// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/whole.h"

#include "base/json.h"
#include "base/result.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::array<std::string_view, 6> kExtensions = {".pt",  ".pth",         ".ckpt",
                                                         ".bin", ".safetensors", ".npz"};
constexpr std::uint64_t kZipTail = 22 + 65535;  // the end record and the longest comment
constexpr std::uint64_t kLongestHeader = 16u << 20;

/// At most `size` bytes from `offset`; shorter when the file ends.
std::string read_at(int fd, std::uint64_t offset, std::uint64_t size) {
    std::string out(size, '\0');
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got =
            ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    out.resize(done);
    return out;
}

std::string why_torn_tensors(int fd, std::uint64_t size) {
    const std::string head = read_at(fd, 0, 8);
    if (head.size() < 8) return "it is shorter than its head";
    std::uint64_t header = 0;
    std::memcpy(&header, head.data(), 8);
    if (header > size - 8) return "it is shorter than its header says";
    if (header > kLongestHeader) return "";
    const auto parsed = capture([&] { return parse_json(read_at(fd, 8, header)); });
    if (!parsed.ok()) return "its header is cut";
    const Json json = Result<Json>(parsed).value();
    if (!json.is_object()) return "";
    std::uint64_t end = 0;
    for (const auto& tensor : json) {
        if (!tensor.is_object() || !tensor.contains("data_offsets")) continue;
        const Json& offsets = tensor["data_offsets"];
        if (offsets.is_array() && offsets.size() == 2 && offsets[1].is_number_unsigned())
            end = std::max(end, offsets[1].get<std::uint64_t>());
    }
    return end > size - 8 - header ? "it is shorter than its tensors" : "";
}

}  // namespace

std::string why_torn(int fd, std::uint64_t size, std::string_view path) {
    if (size == 0) {
        const bool meant = std::ranges::any_of(
            kExtensions, [&](std::string_view extension) { return path.ends_with(extension); });
        return meant ? "it is empty" : "";
    }
    if (path.ends_with(".safetensors")) return why_torn_tensors(fd, size);
    if (read_at(fd, 0, 4) != std::string_view("PK\3\4")) return "";
    const std::uint64_t tail = std::min(size, kZipTail);
    if (read_at(fd, size - tail, tail).find("PK\5\6") == std::string::npos)
        return "the end of the zip archive is missing";
    return "";
}

}  // namespace ty::agent
