// SPDX-License-Identifier: Apache-2.0
// The conversation with the agent outside the box, whose program this launcher is: it keeps the
// checkpoints, so it hears when the workers are gone and is asked before they start again.
//
// Lines of text over a unix socket; what is said in which order is in the launcher's README. Used
// by the launcher's one thread; nothing waits here, so that beats are answered meanwhile.
#pragma once

#include "sys/sys.h"

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace ty::agent {

class NodeSocket {
public:
    struct Events {
        /// The node has to leave the job.
        std::function<void(milliseconds within, const std::string& why)> on_leave;
        /// It hung up, or left a question unanswered; once, from the poller.
        std::function<void(const std::string& why)> on_gone;
    };
    /// nullopt when the agent said "ok", else why it could not.
    using Answer = std::function<void(const std::optional<std::string>& failure)>;

    /// Throws unavailable when nobody listens at `path`.
    NodeSocket(sys::Poller& poller, const std::string& path, milliseconds patience, Events events);
    ~NodeSocket();

    /// Questions are put one after the other: the next when the last one has been answered. The
    /// answer comes from the poller, or never when the agent is gone.
    void ask(std::string question, Answer on_answer);
    /// Needs no answer.
    void tell(const std::string& line);
    bool is_open() const { return fd_.is_open(); }

private:
    struct Question {
        std::string text;
        Answer on_answer;
    };
    void put(const std::string& line);
    void put_next();
    void on_readable();
    void take_line(const std::string& line);
    void lose(const std::string& why);

    sys::Poller& poller_;
    milliseconds patience_;
    Events events_;
    sys::Fd fd_;
    std::string partial_;
    std::deque<Question> questions_;  ///< the first one has been put
};

}  // namespace ty::agent
