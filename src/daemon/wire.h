// SPDX-License-Identifier: Apache-2.0
// The composition root: builds every part in order, hands out references, and takes everything down
// in reverse. There is no other place where collaborators are made.
#pragma once

#include "daemon/config.h"

#include <memory>
#include <string>

namespace ty::daemon {

class Daemon {
public:
    /// Opens state, adopts running jobs, listens and answers. Throws when anything is not usable.
    explicit Daemon(Config config);
    ~Daemon();
    const std::string& endpoint() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace ty::daemon
