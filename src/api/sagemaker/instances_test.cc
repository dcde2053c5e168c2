// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/instances.h"

#include "shapes/shapes.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api::sagemaker;

TEST_CASE("families and sizes tell the accelerators of an instance type") {
    const auto gpus = [](int count) { return Accelerators{Accelerator::gpu, count}; };
    CHECK(accelerators_of("ml.m5.xlarge") == Accelerators{});
    CHECK(accelerators_of("ml.c5n.18xlarge") == Accelerators{});
    CHECK(accelerators_of("ml.r7i.48xlarge") == Accelerators{});
    CHECK(accelerators_of("ml.p3.2xlarge") == gpus(1));
    CHECK(accelerators_of("ml.p3.8xlarge") == gpus(4));
    CHECK(accelerators_of("ml.p3dn.24xlarge") == gpus(8));
    CHECK(accelerators_of("ml.p4d.24xlarge") == gpus(8));
    CHECK(accelerators_of("ml.p5.4xlarge") == gpus(1));
    CHECK(accelerators_of("ml.p5.48xlarge") == gpus(8));
    CHECK(accelerators_of("ml.p6-b200.48xlarge") == gpus(8));
    CHECK(accelerators_of("ml.g4dn.16xlarge") == gpus(1));
    CHECK(accelerators_of("ml.g5.12xlarge") == gpus(4));
    CHECK(accelerators_of("ml.g6e.48xlarge") == gpus(8));
    CHECK(accelerators_of("ml.trn1.2xlarge").kind == Accelerator::neuron);
    CHECK(accelerators_of("ml.inf2.xlarge").kind == Accelerator::neuron);
    CHECK(accelerators_of("") == Accelerators{});
    CHECK(accelerators_of("ml.") == Accelerators{});
}

TEST_CASE("no accelerated type of the model is taken for a CPU type") {
    for (const std::string_view name : shapes::types::kTrainingInstanceType.values) {
        const std::string_view family = name.substr(3);
        const bool cpu =
            family[0] == 'm' || family[0] == 'c' || family[0] == 'r' || family[0] == 't';
        INFO(name);
        if (!cpu)
            CHECK(accelerators_of(name).count > 0);
        else if (!family.starts_with("trn"))
            CHECK(accelerators_of(name).count == 0);
    }
}
