// SPDX-License-Identifier: Apache-2.0
// What `mpirun --tag-output` prints, as whole lines of one process each, marked as the training
// toolkit marks them. Open MPI puts its tag before every piece it receives, wherever in a line that
// is: what comes from unbuffered programs would match no metric's pattern. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

class RankLines {
public:
    using Write = std::function<void(std::string_view)>;
    /// `processes` of the ranks run on each of `hosts`, in their order.
    RankLines(std::vector<std::string> hosts, int processes, Write write)
        : hosts_(std::move(hosts)), processes_(processes), write_(std::move(write)) {}

    /// Lines go out as they are complete: "[1,mpirank:3,algo-2]<stdout>:text"; those of mpirun
    /// itself as they are.
    void add(std::string_view text);
    /// The rest.
    void finish();

private:
    void append(std::string_view text);
    void emit(const std::string& tag, std::string& line);
    std::string tag_of(std::string_view job, std::string_view rank, std::string_view stream) const;

    const std::vector<std::string> hosts_;
    const int processes_;
    const Write write_;
    std::string pending_;                       ///< may be the beginning of a tag
    std::string current_;                       ///< tag of what comes next; empty: mpirun's own
    std::map<std::string, std::string> lines_;  ///< begun ones, by tag
};

}  // namespace ty::agent
