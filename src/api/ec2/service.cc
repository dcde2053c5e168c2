// SPDX-License-Identifier: Apache-2.0
// EC2: there are no machines or networks to rent here, and the answers say so.
#include "api/ec2/ops.h"

#include <array>

namespace ty::api {

namespace {

constexpr std::array kRows{
    QueryRow{"DescribeInstanceTypes", ec2::describe_instance_types, "partial",
             "Echoes the names asked for, without sizes."},
    QueryRow{"DescribeRegions", ec2::describe_regions, "partial", "The caller's region."},
    QueryRow{"DescribeAvailabilityZones", ec2::describe_availability_zones, "partial", "One zone."},
    QueryRow{"DescribeVpcs", ec2::describe_vpcs, "partial", "Always empty."},
    QueryRow{"DescribeSubnets", ec2::describe_subnets, "partial", "Always empty."},
    QueryRow{"DescribeSecurityGroups", ec2::describe_security_groups, "partial", "Always empty."},
};

}  // namespace

http::Response serve_ec2(Call& call) {
    return serve_query_table(call, "ec2", Protocol::ec2, kRows);
}

std::vector<OperationCoverage> ec2_coverage() {
    return coverage_of("ec2", std::span<const QueryRow>(kRows));
}

}  // namespace ty::api
