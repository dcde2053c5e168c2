// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/cluster.h"

#include "api/sagemaker/instances.h"
#include "base/format.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr const char* kTypePath = "resourceConfig.instanceType";

/// One kind of instance that is asked for.
struct Kind {
    std::string type;
    int count = 0;
    int gpus = 0;
};

void refuse_type(const std::string& type, const std::string& needs, Findings& findings) {
    findings.add(kTypePath,
                 fmt::format("The instance type {0} needs {1}: choose a CPU type such as "
                             "ml.m5.xlarge, or allow it to run on the CPU by mapping \"{0}\" to "
                             "\"cpu\" in the configuration's instance map",
                             type, needs));
}

std::string gpu_count(int count) {
    return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

/// GPUs an instance of the type gets. A GPU type never lands on the CPU silently.
int gpus_of(const std::string& type, const Settings& settings, Findings& findings,
            std::vector<std::string>& warnings) {
    const Accelerators wanted = accelerators_of(type);
    if (wanted.kind == Accelerator::none) return 0;
    const auto mapped = settings.instance_map.find(type);
    if (mapped != settings.instance_map.end() && mapped->second == "cpu") {
        std::string note = fmt::format(
            "{} is mapped to the CPU of this machine by configuration: no accelerator is used",
            type);
        if (std::ranges::find(warnings, note) == warnings.end())
            warnings.push_back(std::move(note));
        return 0;
    }
    if (wanted.kind == Accelerator::neuron) {
        refuse_type(type, "Neuron devices, which are not available", findings);
        return 0;
    }
    if (wanted.count > settings.host_gpus) {
        refuse_type(
            type,
            fmt::format("{} and this machine has {}", gpu_count(wanted.count), settings.host_gpus),
            findings);
        return 0;
    }
    return wanted.count;
}

void check_total(const std::vector<Kind>& kinds, const std::optional<plan::Elastic>& elastic,
                 const Settings& settings, Findings& findings) {
    int total = 0;
    std::string sum;
    for (const Kind& kind : kinds) {
        if (kind.gpus == 0) continue;
        const int count = elastic ? elastic->max_nodes : kind.count;
        total += kind.gpus * count;
        sum += fmt::format("{}{} x {}", sum.empty() ? "" : " + ", count, kind.type);
    }
    if (total > settings.host_gpus)
        findings.add(
            elastic ? "tags" : "resourceConfig.instanceCount",
            fmt::format("{} need {} together and this machine has {}: ask for fewer instances or "
                        "a smaller type, or map the type to \"cpu\" in the configuration's "
                        "instance map",
                        sum, gpu_count(total), settings.host_gpus));
}

void check_equal(const std::vector<Kind>& kinds, Findings& findings) {
    const auto other = std::ranges::find_if(
        kinds, [&](const Kind& kind) { return kind.gpus != kinds.front().gpus; });
    if (other != kinds.end())
        findings.add("resourceConfig.instanceGroups",
                     fmt::format("Instance groups with different numbers of GPUs per instance are "
                                 "not supported by Trainyard ({} has {}, {} has {}): choose types "
                                 "that have the same",
                                 kinds.front().type, kinds.front().gpus, other->type, other->gpus));
}

}  // namespace

Cluster cluster_of(const shapes::ResourceConfig& resources,
                   const std::optional<plan::Elastic>& elastic, const Settings& settings,
                   Findings& findings, std::vector<std::string>& warnings) {
    Cluster cluster;
    std::vector<Kind> kinds;
    if (resources.instance_groups && !resources.instance_groups->empty()) {
        cluster.instances = 0;
        for (const shapes::InstanceGroup& asked : *resources.instance_groups) {
            plan::InstanceGroup group{.name = *asked.instance_group_name,
                                      .instance_type = *asked.instance_type,
                                      .hosts = {}};
            for (std::int64_t i = 0; i < *asked.instance_count; ++i)
                group.hosts.push_back(fmt::format("algo-{}", ++cluster.instances));
            std::ranges::sort(group.hosts);
            kinds.push_back({group.instance_type, static_cast<int>(*asked.instance_count), 0});
            cluster.groups.push_back(std::move(group));
        }
    } else {
        cluster.instances = static_cast<int>(*resources.instance_count);
        kinds.push_back({*resources.instance_type, cluster.instances, 0});
    }
    const std::size_t before = findings.size();
    for (Kind& kind : kinds) kind.gpus = gpus_of(kind.type, settings, findings, warnings);
    if (findings.size() == before) {
        check_equal(kinds, findings);
        check_total(kinds, elastic, settings, findings);
    }
    cluster.instance_type = kinds.front().type;
    cluster.gpus = kinds.front().gpus;
    return cluster;
}

}  // namespace ty::api::sagemaker
