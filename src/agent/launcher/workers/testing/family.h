// SPDX-License-Identifier: Apache-2.0
// Families of processes for tests: a pipe that all members hold as standard output.
#pragma once

#include "base/time.h"
#include "sys/sys.h"

#include <string>

namespace ty::agent {

/// Four processes that write one line each and then stay: the worker, a child, a grandchild, and
/// one that daemonised (new session, parent gone).
inline constexpr int kFamilySize = 4;
inline constexpr const char* kFamilyScript =
    "(setsid sh -c 'echo daemon; exec sleep 1000' &)\n"
    "sh -c 'sh -c \"echo grandchild; exec sleep 1000\" & echo child; wait' &\n"
    "echo worker; wait\n";

/// Whoever inherits the write end is a member; end of file says that none is left.
class FamilyPipe {
public:
    FamilyPipe();
    int write_end() const { return pipe_.write.get(); }
    void close_write() { pipe_.write.close(); }
    /// What has been written up to now.
    const std::string& text() const { return text_; }
    bool wait_for_lines(int count, milliseconds patience);
    /// Close our own write end before.
    bool all_gone(milliseconds patience);

private:
    bool pull(Deadline by);

    sys::Pipe pipe_;
    std::string text_;
    bool over_ = false;
};

}  // namespace ty::agent
