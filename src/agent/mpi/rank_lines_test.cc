// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/rank_lines.h"

#include <doctest/doctest.h>

using namespace ty::agent;

namespace {

/// Given whole, and byte by byte.
std::string lines_of(std::string_view text) {
    std::string whole;
    std::string slow;
    RankLines first({"algo-1", "algo-2"}, 2, [&](std::string_view line) { whole += line; });
    first.add(text);
    first.finish();
    RankLines second({"algo-1", "algo-2"}, 2, [&](std::string_view line) { slow += line; });
    for (const char& byte : text) second.add({&byte, 1});
    second.finish();
    CHECK(slow == whole);
    return whole;
}

}  // namespace

TEST_CASE("tagged output becomes whole lines with rank and host") {
    CHECK(lines_of("[1,0]<stdout>:loss 1\n[1,3]<stderr>:oops\n") ==
          "[1,mpirank:0,algo-1]<stdout>:loss 1\n[1,mpirank:3,algo-2]<stderr>:oops\n");
    CHECK(lines_of("[1,2]<stdout>:loss:[1,2]<stdout>: [1,2]<stdout>:0.5[1,2]<stdout>:\n") ==
          "[1,mpirank:2,algo-2]<stdout>:loss: 0.5\n");
    CHECK(lines_of("[1,0]<stdout>:a[1,1]<stdout>:b\n[1,0]<stdout>:c\n") ==
          "[1,mpirank:1,algo-1]<stdout>:b\n[1,mpirank:0,algo-1]<stdout>:ac\n");
}

TEST_CASE("what only looks like a tag stays, and so do mpirun's own lines") {
    CHECK(lines_of("-----\n[1,0]<stdout>:x [1, 2] [3,4] [\nend") ==
          "-----\n[1,mpirank:0,algo-1]<stdout>:x [1, 2] [3,4] [\nend\n");
    CHECK(lines_of("[1,0]<std") == "[1,0]<std\n");
    CHECK(lines_of("[1,9]<stdout>:far\n") == "[1,mpirank:9,unknown]<stdout>:far\n");
    CHECK(lines_of("[1,0]<stdout>:\n\n") == "[1,mpirank:0,algo-1]<stdout>:\n\n");
}
