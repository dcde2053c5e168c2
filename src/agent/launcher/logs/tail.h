// SPDX-License-Identifier: Apache-2.0
// Reads a worker's log file behind its writer and cuts it into lines with a prefix.
//
// Private to the launcher's logs; one thread.
#pragma once

#include "sys/sys.h"

#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// Lines as torchrun's tee shows them: \n, \r and \r\n end a line and come out as \n, so that
/// progress bars become lines; an unfinished line waits for its end.
class LineCutter {
public:
    /// `filters`: lines with any of these texts are copied; empty: none.
    LineCutter(std::string prefix, std::vector<std::string> filters);

    struct Out {
        std::string console;
        std::string filtered;
    };
    /// Appends to `out`. With `last` an unfinished line comes out too, without a line feed.
    void cut(std::string_view data, bool last, Out& out);

private:
    void emit(std::string_view line, std::string_view end, Out& out);

    std::string prefix_;
    std::vector<std::string> filters_;
    std::string carry_;     ///< start of a line whose end has not come
    bool in_line_ = false;  ///< part of a very long line is out already
};

class Tail {
public:
    Tail(const sys::fs::path& path, LineCutter cutter);
    /// Read at most one chunk into `buffer` and cut it; false at the end of the file. `last`: the
    /// writer is gone, so the end of the file is the end of the last line.
    bool read(std::vector<char>& buffer, bool last, LineCutter::Out& out);

private:
    sys::Fd file_;
    long long offset_ = 0;
    LineCutter cutter_;
};

}  // namespace ty::agent
