// SPDX-License-Identifier: Apache-2.0
// The way of a log line: program -> pipe -> LineCutter -> LogQueue -> daemon. Two threads, a reader
// that never waits for the network and a sender that waits for nothing else; a program that prints
// is not held up by a daemon that is away. Every line keeps the index it got when it was cut.
#pragma once

#include "agent/contract/results.h"
#include "agent/control_plane.h"
#include "agent/shipping/line_cutter.h"
#include "agent/shipping/log_queue.h"
#include "base/sync.h"

#include <functional>
#include <string>
#include <string_view>

namespace ty::agent {

class LogPump {
public:
    /// `on_gone` is called from the sender thread when the token is refused.
    LogPump(const Start& start, const std::string& stream, sys::fs::path spool, const Clock& clock,
            std::function<void()> on_gone);
    ~LogPump();
    LogPump(const LogPump&) = delete;
    LogPump& operator=(const LogPump&) = delete;

    /// Write end of the pipe: stdout and stderr of whatever runs for the job.
    int write_fd() const { return pipe_.write.get(); }
    /// A line of our own in the job's log: "trainyard: <text>". Any thread.
    void say(std::string_view text);
    /// Forget what earlier runs printed.
    void start_run();
    /// Everything the (dead) writers left in the pipe is taken and its last line ended; what was
    /// printed last since start_run().
    Tail finish_run();
    /// Wait until the last line was acknowledged. False on deadline or stop.
    bool flush(Deadline by, const std::stop_token& stop);

private:
    struct Input {
        LineCutter cutter;
        std::string buffer;
        std::string tail;  ///< raw bytes printed last
    };
    struct Output {
        LogQueue queue;
        std::uint64_t acknowledged = 0;
        bool urgent = false;  ///< flush(): do not gather
        bool gone = false;
        explicit Output(sys::fs::path spool) : queue(std::move(spool)) {}
    };

    enum class Read { some, none };
    Read read_chunk(Input& input);
    void read_loop(const std::stop_token& stop);
    void send_loop(const std::stop_token& stop);
    bool send(ControlPlane& daemon, const LogQueue::Batch& batch, const std::stop_token& stop);

    const Clock& clock_;
    const Start start_;
    const std::string stream_;
    const std::function<void()> on_gone_;
    sys::Pipe pipe_;
    Sync<Input> input_;
    Sync<Output> output_;
    TaskGroup tasks_;
};

}  // namespace ty::agent
