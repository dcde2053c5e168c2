// SPDX-License-Identifier: Apache-2.0
#include "common/training/network.h"

#include "common/base/error.h"

#include <doctest/doctest.h>

using namespace alg;

TEST_CASE("ranks of one host talk over the loopback interface") {
    Place place;
    place.world = place.local_world = 2;
    CHECK(own_address(place, "") == "127.0.0.1");
}

TEST_CASE("an interface that was named is used, and refused when it is not there") {
    CHECK(address_of_interface("lo") == "127.0.0.1");
    CHECK(address_of_interface("nowhere0") == "");
    Place place;
    place.world = 2;
    place.interface = "lo";
    CHECK(own_address(place, "") == "127.0.0.1");
    CHECK(own_address(place, "lo,eth7") == "127.0.0.1");
    CHECK_THROWS_WITH_AS(
        own_address(place, "nowhere0"),
        "GLOO_SOCKET_IFNAME names the network interface \"nowhere0\", which is not "
        "up or has no address; see \"ip address\" or unset it",
        Failure);
}

TEST_CASE("hosts apart never offer each other a loopback address") {
    Place place;
    place.world = 2;
    place.master_address = "127.0.0.1";
    CHECK_FALSE(own_address(place, "").starts_with("127."));
}
