// SPDX-License-Identifier: Apache-2.0
// pugixml expands no entities but XML's five and reads nothing from outside, so neither bombs nor
// external references exist; the callers bound the size.
#include "api/s3/xml_in.h"

#include "api/s3/payload.h"
#include "base/text.h"

#include <pugixml.hpp>
#include <set>

namespace ty::api::s3 {
namespace {

constexpr std::size_t kMostDeletes = 1000;
constexpr std::size_t kMostTags = 10;

[[noreturn]] void malformed(std::string_view detail) {
    throw_error(Code::invalid, "MalformedXML",
                "The XML you provided was not well-formed or did not validate against our "
                "published schema: {}",
                detail);
}

std::string_view local_name(const pugi::xml_node& node) {
    const std::string_view name = node.name();
    const auto colon = name.find(':');
    return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

class Document {
public:
    Document(std::string_view text, std::string_view root) {
        if (!is_valid_utf8(text)) malformed("it is not UTF-8");
        const auto result = document_.load_buffer(
            text.data(), text.size(), pugi::parse_default | pugi::parse_ws_pcdata_single,
            pugi::encoding_utf8);
        if (!result) malformed(fmt::format("{} at byte {}", result.description(), result.offset));
        if (local_name(root_of()) != root) malformed(fmt::format("expected <{}>", root));
    }
    pugi::xml_node root_of() const { return document_.document_element(); }

private:
    pugi::xml_document document_;
};

/// Elements of that name, in order.
std::vector<pugi::xml_node> children(const pugi::xml_node& parent, std::string_view name) {
    std::vector<pugi::xml_node> out;
    for (const pugi::xml_node& node : parent.children())
        if (node.type() == pugi::node_element && local_name(node) == name) out.push_back(node);
    return out;
}

std::optional<std::string> text_of(const pugi::xml_node& parent, std::string_view name) {
    const auto found = children(parent, name);
    if (found.empty()) return std::nullopt;
    if (found.size() > 1) malformed(fmt::format("<{}> appears twice", name));
    // Text may be in several pieces, between comments or CDATA.
    std::string text;
    for (const pugi::xml_node& node : found.front().children()) {
        if (node.type() == pugi::node_element) malformed(fmt::format("<{}> is not text", name));
        if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata)
            text += node.value();
    }
    return text;
}

std::string require(const pugi::xml_node& parent, std::string_view name) {
    auto text = text_of(parent, name);
    if (!text) malformed(fmt::format("<{}> is missing in <{}>", name, local_name(parent)));
    return std::move(*text);
}

objects::Part completed_part(const pugi::xml_node& node) {
    objects::Part part;
    const auto number = parse_int(trim(require(node, "PartNumber")));
    if (!number || *number < 1 || *number > 10000)
        throw_error(Code::invalid, "InvalidArgument",
                    "PartNumber must be a whole number from 1 to 10000");
    part.number = static_cast<int>(*number);
    part.etag = unquote_etag(require(node, "ETag"));
    for (const char* name : {"crc32", "crc32c", "crc64nvme", "sha1", "sha256"})
        if (auto value = text_of(node, checksum_element(name)))
            part.checksums[name] = std::move(*value);
    return part;
}

}  // namespace

std::string parse_location_constraint(std::string_view xml) {
    if (trim(xml).empty()) return {};
    const Document document(xml, "CreateBucketConfiguration");
    return std::string(trim(text_of(document.root_of(), "LocationConstraint").value_or("")));
}

DeleteRequest parse_delete(std::string_view xml) {
    const Document document(xml, "Delete");
    DeleteRequest out;
    out.quiet = trim(text_of(document.root_of(), "Quiet").value_or("false")) == "true";
    for (const pugi::xml_node& node : children(document.root_of(), "Object")) {
        out.entries.push_back({require(node, "Key"), text_of(node, "VersionId").value_or("")});
        if (out.entries.back().key.empty()) malformed("a <Key> is empty");
    }
    if (out.entries.empty() || out.entries.size() > kMostDeletes)
        malformed(fmt::format("it names {} objects; 1 to {} are allowed", out.entries.size(),
                              kMostDeletes));
    return out;
}

std::vector<objects::Part> parse_completed_parts(std::string_view xml) {
    const Document document(xml, "CompleteMultipartUpload");
    std::vector<objects::Part> parts;
    for (const pugi::xml_node& node : children(document.root_of(), "Part"))
        parts.push_back(completed_part(node));
    if (parts.empty()) malformed("You must specify at least one part");
    return parts;
}

std::map<std::string, std::string> parse_tagging(std::string_view xml) {
    const Document document(xml, "Tagging");
    const auto sets = children(document.root_of(), "TagSet");
    if (sets.size() != 1) malformed("one <TagSet> is expected");
    std::vector<std::pair<std::string, std::string>> tags;
    for (const pugi::xml_node& node : children(sets.front(), "Tag"))
        tags.emplace_back(require(node, "Key"), require(node, "Value"));
    check_tags(tags);
    return {tags.begin(), tags.end()};
}

void check_tags(const std::vector<std::pair<std::string, std::string>>& tags) {
    if (tags.size() > kMostTags)
        throw_error(Code::invalid, "BadRequest", "Object tags cannot be greater than {}",
                    kMostTags);
    std::set<std::string> seen;
    for (const auto& [key, value] : tags) {
        if (key.empty() || count_code_points(key) > 128)
            throw_error(Code::invalid, "InvalidTag",
                        "The TagKey you have provided is invalid: 1 to 128 characters are allowed");
        if (count_code_points(value) > 256)
            throw_error(Code::invalid, "InvalidTag",
                        "The TagValue of \"{}\" is invalid: at most 256 characters are allowed",
                        to_valid_utf8(key));
        if (!seen.insert(key).second)
            throw_error(Code::invalid, "InvalidTag",
                        "Cannot provide multiple Tags with the same key: \"{}\"",
                        to_valid_utf8(key));
    }
}

}  // namespace ty::api::s3
