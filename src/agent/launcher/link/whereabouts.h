// SPDX-License-Identifier: Apache-2.0
// Where a job's coordinator was last, as the agents on the endpoint's machine know it. One that
// starts anew there looks first, instead of beginning the job a second time.
#pragma once

#include "base/time.h"
#include "rendezvous/rendezvous.h"
#include "sys/sys.h"

#include <optional>
#include <vector>

namespace ty::agent {

struct Whereabouts {
    std::int64_t generation = 0;                            ///< newest known
    int nodes = 0;                                          ///< of that generation
    std::vector<rendezvous::Assignment::Successor> places;  ///< coordinator, then its successors

    /// Survives the death of every process, not of the machine; failures are ignored: it is a hint.
    void save(const sys::fs::path& path) const;
    /// nullopt when absent, damaged or older than `freshness`.
    static std::optional<Whereabouts> load(const sys::fs::path& path, const Clock& clock,
                                           milliseconds freshness);
};

}  // namespace ty::agent
