// SPDX-License-Identifier: Apache-2.0
#include "aws/xml.h"
#include "aws/xml_scan.h"
#include "base/error.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::aws;

TEST_CASE("the writer nests, escapes and closes what is open") {
    XmlWriter xml;
    xml.open("List", {{"xmlns", "urn:x"}, {"note", "a\"b"}}).element("Name", "a<b>&'c\"");
    xml.open("Contents").element("Size", 12).element("Last", true).element("Empty", "");
    CHECK(std::move(xml).finish() ==
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<List xmlns=\"urn:x\" "
          "note=\"a&quot;b\"><Name>a&lt;b&gt;&amp;&apos;"
          "c&quot;</Name><Contents><Size>12</Size><Last>true</Last><Empty/></Contents></List>");
}

TEST_CASE("bytes XML cannot carry become replacement characters") {
    CHECK(xml_escape("a\rb") == "a&#13;b");
    CHECK(xml_escape(std::string("a\0b\x1F", 4)) ==
          "a\xEF\xBF\xBD"
          "b\xEF\xBF\xBD");
    CHECK(xml_escape("\xFF") == "\xEF\xBF\xBD");
    CHECK(xml_escape("\xEF\xBF\xBF!") == "\xEF\xBF\xBD!");
    CHECK(xml_escape("t\tn\n") == "t\tn\n");
    CHECK(xml_escape("\xE4\xB8\xAD") == "\xE4\xB8\xAD");
}

TEST_CASE("what the writer wrote the scanner reads") {
    const std::string key = "a & b <c> \"d\" 'e' \r\n \xE4\xB8\xAD";
    XmlWriter xml;
    xml.open("ListBucketResult")
        .element("IsTruncated", true)
        .element("NextContinuationToken", "t&1");
    xml.open("Contents").element("Key", key).element("ETag", "\"abc\"").element("Size", 7).close();
    const ListPage page = parse_list_page(std::move(xml).finish());
    REQUIRE(page.objects.size() == 1);
    CHECK(page.objects[0].key == key);
    CHECK(page.objects[0].etag == "abc");
    CHECK(page.objects[0].size == 7);
    CHECK(page.truncated);
    CHECK(page.next == "t&1");
}

TEST_CASE("a listing as AWS sends it, with owner, prefixes and encoded keys") {
    const ListPage page = parse_list_page(
        "<?xml version=\"1.0\"?>\n<!-- c --><ListBucketResult "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
        "<Name>b</Name><Prefix/><Contents><Key>a+b%2Bc%0A</Key><Owner><ID>x</ID><Key>not "
        "this</Key></Owner>"
        "<Size>0</Size></Contents><Contents><Key>d</Key><Size>5368709120</Size></Contents>"
        "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes><IsTruncated>false</IsTruncated>"
        "<EncodingType>url</EncodingType></ListBucketResult>");
    REQUIRE(page.objects.size() == 2);
    CHECK(page.objects[0].key == "a b+c\n");
    CHECK(page.objects[1].size == 5368709120u);
    CHECK_FALSE(page.truncated);
}

TEST_CASE("malformed and hostile XML is refused, not misread") {
    const char* bad[] = {
        "",
        "<ListBucketResult>",
        "<ListBucketResult></Other>",
        "<Other/>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult/>",
        "<ListBucketResult>&unknown;</ListBucketResult>",
        "<ListBucketResult>&#xD800;</ListBucketResult>",
        "<ListBucketResult>&#99999999;</ListBucketResult>",
        "<ListBucketResult>& </ListBucketResult>",
        "<ListBucketResult a=\">\"",
        "<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%zz</Key></Contents></"
        "ListBucketResult>",
        "text<ListBucketResult/>"};
    for (const char* document : bad) {
        CAPTURE(document);
        if (std::string_view(document).empty())
            CHECK(parse_list_page(document).objects.empty());
        else
            CHECK_THROWS_AS(parse_list_page(document), Error);
    }
    std::string deep;
    for (int i = 0; i < 100; ++i) deep += "<a>";
    CHECK_THROWS_AS(parse_list_page(deep), Error);
}

TEST_CASE("faults and single elements are found, and absent ones are not invented") {
    const auto fault = find_fault(
        "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>gone &amp; "
        "away</Message></Error>");
    REQUIRE(fault.has_value());
    CHECK(fault->code == "NoSuchKey");
    CHECK(fault->message == "gone & away");
    CHECK_FALSE(find_fault("<Result><Code>x</Code></Result>"));
    CHECK_FALSE(find_fault("<Error><Code>x"));
    CHECK(find_element("<R><UploadId>a<![CDATA[<b>]]></UploadId></R>", "UploadId") == "a<b>");
    CHECK_FALSE(find_element("<R><UploadId>a", "UploadId"));
}
