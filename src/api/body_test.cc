// SPDX-License-Identifier: Apache-2.0
#include "api/body.h"

#include "base/error.h"
#include "base/text.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

namespace {

/// "hello hello hello hello" by gzip -n.
std::string packed() {
    return from_base64("H4sIAAAAAAACA8tIzcnJV8hAJwHjUT2NFwAAAA==").value();
}

}  // namespace

TEST_CASE("gzip bodies are unpacked, others left alone, bombs and rubbish refused") {
    CHECK(unpack_body(packed(), "gzip", Bytes(100)) == "hello hello hello hello");
    CHECK(unpack_body("{}", "", Bytes(100)) == "{}");
    CHECK(unpack_body("{}", "aws-chunked", Bytes(100)) == "{}");
    CHECK_THROWS_AS(unpack_body(packed(), "gzip", Bytes(10)), Error);
    CHECK_THROWS_AS(unpack_body("rubbish", "gzip", Bytes(100)), Error);
    CHECK_THROWS_AS(unpack_body(packed().substr(0, 15), "gzip", Bytes(100)), Error);
}
