// SPDX-License-Identifier: Apache-2.0
#include "api/form.h"

#include "base/error.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

TEST_CASE("parameters, numbers and both spellings of lists") {
    const Form form(
        "Action=X&A.member.2=two&A.member.1=one&A.member.10=ten&I.1=a&I.2=b+c&N=900&Empty=");
    CHECK(form.get("Action") == "X");
    CHECK(form.list("A") == std::vector<std::string>{"one", "two"});
    CHECK(form.list("I") == std::vector<std::string>{"a", "b c"});
    CHECK(form.list("None").empty());
    CHECK(form.number("N", 1, 900, 1000) == 900);
    CHECK(form.number("M", 5, 1, 10) == 5);
    CHECK_THROWS_AS(form.number("N", 1, 901, 1000), Error);
    CHECK_THROWS_AS(form.number("Action", 1, 1, 2), Error);
    CHECK(form.require("Action") == "X");
    CHECK_THROWS_WITH_AS(form.require("Empty"),
                         "1 validation error detected: Value null at 'Empty' failed to satisfy "
                         "constraint: Member must not be null",
                         Error);
    CHECK_FALSE(Form("").find("Action"));
}
