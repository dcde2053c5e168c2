// SPDX-License-Identifier: Apache-2.0
// The Describe calls: empty sets where EC2 would list networks, the region where it would list
// regions.
#include "api/ec2/ops.h"

namespace ty::api::ec2 {

namespace {

http::Response empty_set(const Call& call, std::string_view element) {
    return ec2_reply(call.operation, call.caller.request_id,
                     [&](aws::XmlWriter& xml) { xml.element(element, ""); });
}

}  // namespace

http::Response describe_instance_types(Call& call, const Form& form) {
    return ec2_reply(call.operation, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("instanceTypeSet");
        for (const std::string& type : form.list("InstanceType"))
            xml.open("item").element("instanceType", type).close();
        xml.close();
    });
}

http::Response describe_regions(Call& call, const Form&) {
    const std::string& region = call.caller.region;
    return ec2_reply(call.operation, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("regionInfo").open("item").element("regionName", region);
        xml.element("regionEndpoint", format("ec2.{}.{}", region, aws::dns_suffix_of(region)));
        xml.element("optInStatus", "opt-in-not-required").close().close();
    });
}

http::Response describe_availability_zones(Call& call, const Form&) {
    const std::string& region = call.caller.region;
    return ec2_reply(call.operation, call.caller.request_id, [&](aws::XmlWriter& xml) {
        xml.open("availabilityZoneInfo").open("item").element("zoneName", region + 'a');
        xml.element("zoneState", "available").element("regionName", region).close().close();
    });
}

http::Response describe_vpcs(Call& call, const Form&) {
    return empty_set(call, "vpcSet");
}
http::Response describe_subnets(Call& call, const Form&) {
    return empty_set(call, "subnetSet");
}
http::Response describe_security_groups(Call& call, const Form&) {
    return empty_set(call, "securityGroupInfo");
}

}  // namespace ty::api::ec2
