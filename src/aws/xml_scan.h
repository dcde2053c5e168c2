// SPDX-License-Identifier: Apache-2.0
// Reading the few XML answers an S3 client needs (listings, upload ids, errors) without an XML
// library: the agent links this and has a size budget. A pull scanner over one document held in
// memory; no entities beyond XML's own five and character references, no DTD, bounded depth.
// Private to aws/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::aws {

class XmlScanner {
public:
    enum class Kind { open, close, text, end };
    struct Token {
        Kind kind = Kind::end;
        std::string_view name;  ///< without namespace prefix; views into the document
        std::string text;       ///< unescaped
    };

    explicit XmlScanner(std::string_view document) : rest_(document) {}
    /// Throws corrupt "MalformedXML". Text between elements comes as it is, white space included.
    Token next();

private:
    Token read_tag();
    void skip_past(std::string_view mark);

    std::string_view rest_;
    std::vector<std::string_view> open_;
    bool close_pending_ = false;  // <x/> is an open and a close
};

struct ListedObject {
    std::string key, etag;
    std::uint64_t size = 0;
};
/// One page of ListObjectsV2.
struct ListPage {
    std::vector<ListedObject> objects;
    bool truncated = false;
    std::string next;  ///< NextContinuationToken
};
/// Throws corrupt "MalformedXML". Keys are decoded when the page says EncodingType url.
ListPage parse_list_page(std::string_view document);

struct Fault {
    std::string code, message;
};
/// Code and Message of an <Error> document; nullopt when it is none (malformed included).
std::optional<Fault> find_fault(std::string_view document);
/// Text of the first element of that name; nullopt when absent or malformed.
std::optional<std::string> find_element(std::string_view document, std::string_view name);

}  // namespace ty::aws
