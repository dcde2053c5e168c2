// SPDX-License-Identifier: Apache-2.0
// Which of this machine's addresses other ranks can reach.
#pragma once

#include "common/base/contract.h"

#include <string>

namespace alg {

/// IPv4 or IPv6 address of a network interface that is up; empty: there is none of that name.
std::string address_of_interface(const std::string& interface);

/// In this order: the interface named by GLOO_SOCKET_IFNAME (`forced`; throws Failure when it has
/// no address), the one of the resource configuration; 127.0.0.1 when all ranks are on this host;
/// the address this host reaches the master from; the first that is no loopback. Empty: nothing
/// found.
std::string own_address(const Place& place, const std::string& forced);

}  // namespace alg
