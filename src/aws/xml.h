// SPDX-License-Identifier: Apache-2.0
// Writing XML answers: escaping and nesting, nothing else. Part of aws/aws.h's surface (included by
// it).
//
// Bytes that XML 1.0 cannot carry (control characters, broken UTF-8) are written in the form that a
// parser accepts: controls as U+FFFD, carriage returns as &#13; so that keys round-trip.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ty::aws {

/// Appends `text` with & < > " ' escaped.
void append_xml_escaped(std::string& out, std::string_view text);
std::string xml_escape(std::string_view text);

/// Builds one document. Element names are the program's own and are not checked.
///
///     XmlWriter xml;
///     xml.open("ListBucketResult", {{"xmlns", kS3Namespace}}).element("Name", bucket);
///     for (…) { xml.open("Contents").element("Key", key).element("Size", size).close(); }
///     response.body = std::move(xml).finish();          // closes what is open
class XmlWriter {
public:
    enum class Declaration { write, omit };
    using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

    explicit XmlWriter(Declaration declaration = Declaration::write);

    XmlWriter& open(std::string_view name, Attributes attributes = {});
    /// Closes the innermost open element; asserts that there is one.
    XmlWriter& close();
    /// <name>escaped text</name>, or <name/> when empty.
    XmlWriter& element(std::string_view name, std::string_view text);
    XmlWriter& element(std::string_view name, const char* text) {
        return element(name, std::string_view(text));
    }
    XmlWriter& element(std::string_view name, const std::string& text) {
        return element(name, std::string_view(text));
    }
    /// true/false for bool, decimal for integers.
    template <typename T>
    requires std::is_integral_v<T> XmlWriter& element(std::string_view name, T value) {
        if constexpr (std::is_same_v<T, bool>)
            return element(name, value ? std::string_view("true") : std::string_view("false"));
        else
            return element(name, std::string_view(std::to_string(value)));
    }
    /// Escaped text inside the open element.
    XmlWriter& text(std::string_view text);
    /// Closes everything and gives the document away.
    std::string finish() &&;

private:
    std::string out_;
    std::vector<std::string> open_;
};

}  // namespace ty::aws
