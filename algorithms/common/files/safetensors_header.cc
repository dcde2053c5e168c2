// SPDX-License-Identifier: Apache-2.0
#include "common/files/safetensors_header.h"

#include "common/base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>

namespace alg {
namespace {

constexpr std::uint64_t kMostHeader = 100'000'000;  // as Hugging Face's

/// {"__metadata__": {text: text}, name: {"dtype": text, "shape": [n…], "data_offsets": [n, n]}}, as
/// a state machine over the parser's events: a document would lose names that occur twice, and it
/// can be nested without bound.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
public:
    HeaderEvents(SafetensorsHeader& header, const std::string& origin)
        : header_(header), origin_(origin) {}

    bool key(string_t& name) override {
        if (depth_ == 1) {
            if (!names_.insert(name).second) refuse(format("\"{}\" occurs twice", name));
            in_metadata_ = name == "__metadata__";
            if (!in_metadata_) {
                header_.entries.push_back({.name = name});
                fields_.clear();
            }
        } else if (!in_metadata_ && !fields_.insert(name).second) {
            refuse(format("\"{}\" of \"{}\" occurs twice", name, entry().name));
        }
        key_ = name;
        return true;
    }
    bool string(string_t& value) override {
        if (depth_ != 2 || array_) unexpected();
        if (in_metadata_) {
            if (!header_.metadata.emplace(key_, value).second)
                refuse(format("\"{}\" of the metadata occurs twice", key_));
            return true;
        }
        const auto element = find_element(&ElementNames::safetensors, value);
        if (key_ != "dtype") unexpected();
        if (!element) refuse(format("\"{}\": type {} is not read", entry().name, value));
        entry().element = *element;
        return true;
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (!array_) unexpected();
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            refuse(format("\"{}\": {} is beyond all sizes", entry().name, value));
        if (key_ == "shape") {
            entry().shape.push_back(static_cast<std::int64_t>(value));
            if (entry().shape.size() > 64)
                refuse(format("\"{}\": too many dimensions", entry().name));
        } else {
            if (++offsets_ > 2) refuse(format("\"{}\": more than two offsets", entry().name));
            (offsets_ == 1 ? entry().begin : entry().end) = value;
        }
        return true;
    }
    bool start_object(std::size_t) override {
        if (depth_ >= 2 || array_) unexpected();
        ++depth_;
        return true;
    }
    bool end_object() override {
        if (--depth_ == 1 && !in_metadata_ && fields_.size() != 3)
            refuse(format("\"{}\" lacks dtype, shape or data_offsets", entry().name));
        return true;
    }
    bool start_array(std::size_t) override {
        if (depth_ != 2 || array_ || in_metadata_) unexpected();
        if (key_ != "shape" && key_ != "data_offsets") unexpected();
        array_ = true;
        offsets_ = 0;
        return true;
    }
    bool end_array() override {
        array_ = false;
        if (key_ == "data_offsets" && offsets_ != 2)
            refuse(format("\"{}\": two offsets are needed", entry().name));
        return true;
    }
    bool null() override { unexpected(); }
    bool boolean(bool) override { unexpected(); }
    bool number_integer(number_integer_t) override { unexpected(); }
    bool number_float(number_float_t, const string_t&) override { unexpected(); }
    bool binary(binary_t&) override { unexpected(); }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::json::exception&) override {
        fail("{}: damaged header: no JSON at byte {}", origin_, 8 + position);
    }

private:
    SafetensorsEntry& entry() { return header_.entries.back(); }
    [[noreturn]] void refuse(const std::string& what) const {
        fail("{}: bad header: {}", origin_, what);
    }
    [[noreturn]] void unexpected() const {
        refuse(key_.empty() ? "no object" : format("unexpected value at \"{}\"", key_));
    }

    SafetensorsHeader& header_;
    const std::string& origin_;
    std::set<std::string> names_, fields_;
    std::string key_;
    int depth_ = 0, offsets_ = 0;
    bool in_metadata_ = false, array_ = false;
};

void check_size(const SafetensorsEntry& entry, const std::string& origin) {
    std::uint64_t bytes = names_of(entry.element).size;
    bool overflow = false;
    for (const std::int64_t size : entry.shape)
        overflow |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
    // A zero among factors that overflow is still a tensor without elements.
    if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) {
        overflow = false;
        bytes = 0;
    }
    if (overflow || entry.begin > entry.end || entry.end - entry.begin != bytes)
        fail("{}: \"{}\": offsets {} to {} do not fit its shape", origin, entry.name, entry.begin,
             entry.end);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(Bytes file, const std::string& origin) {
    if (file.size() < 8) fail("{}: no safetensors file: only {} bytes", origin, file.size());
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<std::uint64_t>(file[i]);
    if (length > file.size() - 8)
        fail("{}: cut off, or no safetensors file: its header of {} bytes is longer than the file",
             origin, length);
    if (length > kMostHeader) fail("{}: its header of {} bytes is too long", origin, length);
    const std::string_view text = as_text(file.subspan(8, length));
    if (!text.starts_with('{')) fail("{}: no safetensors file: its header is no object", origin);
    SafetensorsHeader header;
    header.data = 8 + length;
    HeaderEvents events(header, origin);
    nlohmann::json::sax_parse(text.begin(), text.end(), &events);

    std::vector<const SafetensorsEntry*> by_offset;
    by_offset.reserve(header.entries.size());
    for (const SafetensorsEntry& entry : header.entries) {
        check_size(entry, origin);
        by_offset.push_back(&entry);
    }
    std::sort(by_offset.begin(), by_offset.end(), [](const auto* left, const auto* right) {
        return std::pair(left->begin, left->end) < std::pair(right->begin, right->end);
    });
    std::uint64_t reached = 0;
    for (const SafetensorsEntry* entry : by_offset) {
        if (entry->begin != reached)
            fail("{}: \"{}\" begins at {}, {} {}", origin, entry->name, entry->begin,
                 entry->begin < reached ? "before another tensor's end at" : "leaving a gap from",
                 reached);
        reached = entry->end;
    }
    if (reached != file.size() - header.data)
        fail("{}: cut off or damaged: {} bytes of data where its tensors need {}", origin,
             file.size() - header.data, reached);
    return header;
}

SafetensorsLayout lay_out_safetensors(std::vector<SafetensorsEntry>& entries,
                                      const std::map<std::string, std::string>& metadata) {
    SafetensorsLayout layout;
    layout.order.resize(entries.size());
    std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
    std::stable_sort(layout.order.begin(), layout.order.end(), [&](std::size_t a, std::size_t b) {
        return names_of(entries[a].element).size > names_of(entries[b].element).size;
    });
    std::uint64_t at = 0;
    for (const std::size_t index : layout.order) {
        std::uint64_t bytes = names_of(entries[index].element).size;
        for (const std::int64_t size : entries[index].shape)
            bytes *= static_cast<std::uint64_t>(size);
        entries[index].begin = at;
        entries[index].end = at += bytes;
    }
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    for (const SafetensorsEntry& entry : entries)
        header[entry.name] = {{"dtype", names_of(entry.element).safetensors},
                              {"shape", entry.shape},
                              {"data_offsets", {entry.begin, entry.end}}};
    if (header.size() != entries.size() + (metadata.empty() ? 0 : 1)) {
        std::set<std::string> seen{"__metadata__"};
        for (const SafetensorsEntry& entry : entries)
            if (!seen.insert(entry.name).second) fail("two tensors named \"{}\"", entry.name);
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    for (int i = 0; i < 8; ++i) layout.head += static_cast<char>(text.size() >> (8 * i) & 0xff);
    layout.head += text;
    return layout;
}

}  // namespace alg
