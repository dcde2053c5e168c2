// SPDX-License-Identifier: Apache-2.0
#include "common/training/backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace alg {

c10::intrusive_ptr<c10d::Backend> make_gloo(const Meeting& meeting, const std::string& address) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->timeout = meeting.timeout;
    // Two threads: one sum can be on the wire while another is added up.
    options->threads = 2;
    options->devices.push_back(address.empty()
                                   ? c10d::ProcessGroupGloo::createDefaultDevice()
                                   : c10d::ProcessGroupGloo::createDeviceForHostname(address));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(meeting.store, meeting.rank, meeting.world,
                                                       options);
}

}  // namespace alg
