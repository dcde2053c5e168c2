// SPDX-License-Identifier: Apache-2.0
// The calls of EC2 that SDK and scripts make on the way to a training job; files in ops/.
#pragma once

#include "api/table.h"

namespace ty::api::ec2 {

http::Response describe_instance_types(Call& call, const Form& form);
http::Response describe_regions(Call& call, const Form& form);
http::Response describe_availability_zones(Call& call, const Form& form);
http::Response describe_vpcs(Call& call, const Form& form);
http::Response describe_subnets(Call& call, const Form& form);
http::Response describe_security_groups(Call& call, const Form& form);

}  // namespace ty::api::ec2
