// SPDX-License-Identifier: Apache-2.0
// Group ranks and the words for people.
#include "rendezvous/rendezvous.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ty::rendezvous;

namespace {

using Ids = std::vector<std::string>;

NodeFacts facts_of(const std::string& id, const std::string& host = {},
                   std::optional<long> slot = {}) {
    NodeFacts facts;
    facts.id = id;
    facts.host = host.empty() ? id : host;
    facts.slot = slot;
    return facts;
}

std::vector<NodeFacts> all(const Ids& ids) {
    std::vector<NodeFacts> facts;
    for (const std::string& id : ids) facts.push_back(facts_of(id));
    return facts;
}

}  // namespace

TEST_CASE("names compare as people read them") {
    CHECK(natural_less("node7", "node66"));
    CHECK_FALSE(natural_less("node66", "node7"));
    CHECK(natural_less("a9b", "a10a"));
    CHECK(natural_less("a", "a1"));
    CHECK(natural_less("", "0"));
    CHECK(natural_less("x99999999999999999999998", "x99999999999999999999999"));
    CHECK(natural_less("rack2-node10", "rack10-node2"));
    CHECK_FALSE(natural_less("same", "same"));
    // A strict order also for equal numbers.
    CHECK(natural_less("n007", "n07"));
    CHECK_FALSE(natural_less("n07", "n007"));
}

TEST_CASE("the natural order is a strict weak order") {
    const Ids names = {"",   "0",   "00",   "a", "a0", "a00", "a1",   "a01",   "a10",    "a2",
                       "ab", "a1b", "a01b", "b", "-",  "a-1", "a-01", "node7", "node66", "node07"};
    for (const std::string& a : names)
        for (const std::string& b : names) {
            CHECK((natural_less(a, b) + natural_less(b, a)) == (a == b ? 0 : 1));
            for (const std::string& c : names)
                if (natural_less(a, b) && natural_less(b, c)) CHECK(natural_less(a, c));
        }
}

TEST_CASE("a first generation sorts by slot, then by host, then by arrival") {
    const std::vector<NodeFacts> arrived = {facts_of("u", "node66"), facts_of("v", "node7"),
                                            facts_of("w", "node1", 5), facts_of("x", "node2", 3),
                                            facts_of("y", "node7")};
    CHECK(order_nodes({}, arrived) == Ids{"x", "w", "v", "y", "u"});
}

TEST_CASE("survivors keep their order and newcomers fill the holes, then the end") {
    CHECK(order_nodes({"a", "b", "c"}, all({"c", "a"})) == Ids{"a", "c"});
    CHECK(order_nodes({"a", "b", "c"}, all({"z", "c", "a"})) == Ids{"a", "z", "c"});
    CHECK(order_nodes({"", "b", "", "d"}, all({"d", "b", "z9", "z10", "z11"})) ==
          Ids{"z9", "b", "z10", "d", "z11"});
    CHECK(order_nodes({"a"}, all({})) == Ids{});
}

TEST_CASE("the same id twice has one place") {
    CHECK(order_nodes({"a", "a", "b"}, all({"b", "a", "a", "c", "c"})) == Ids{"a", "c", "b"});
}

TEST_CASE("a failure is one sentence") {
    Failure failure;
    failure.kind = FailureKind::out_of_memory;
    failure.rank = 3;
    failure.local_rank = 1;
    failure.host = "node7";
    failure.pid = 4711;
    failure.signal = 9;
    CHECK(
        sentence(failure) ==
        "rank 3 (local rank 1 on node7, pid 4711) was killed by SIGKILL (signal 9): out of memory");
    failure.kind = FailureKind::exit_code;
    failure.exit_code = 2;
    failure.message = "ValueError: no";
    CHECK(sentence(failure) ==
          "rank 3 (local rank 1 on node7, pid 4711) exited with code 2: ValueError: no");
    failure.kind = FailureKind::hang;
    failure.pid = 0;
    failure.message.clear();
    CHECK(sentence(failure) == "rank 3 (local rank 1 on node7) made no progress");
    Failure node;
    node.host = "node7";
    node.kind = FailureKind::node_lost;
    CHECK(sentence(node) == "node node7 was lost (its connection closed)");
    node.kind = FailureKind::node_silent;
    CHECK(sentence(node) == "node node7 fell silent (its lease ran out)");
    node.kind = FailureKind::not_started;
    node.message = "/no/such does not exist";
    CHECK(sentence(node) == "node node7 could not start its workers: /no/such does not exist");
    node.message.clear();
    node.kind = FailureKind::signal;
    node.rank = 0;
    node.signal = 99;
    CHECK(sentence(node) == "rank 0 (on node7) was killed by signal 99");
}
