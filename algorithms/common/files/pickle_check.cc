// SPDX-License-Identifier: Apache-2.0
// What a pickle yields is only trusted after this: objects may contain themselves, share parts so
// often that writing them out would fill the memory, or hold what no file of tensors needs.
#include "common/base/error.h"
#include "common/files/pickle_machine.h"

#include <algorithm>

namespace alg {

using Kind = PickleNode::Kind;

namespace {

class TreeCheck {
public:
    TreeCheck(const Pickle& pickle, const std::string& origin)
        : pickle_(pickle), origin_(origin), seen_(pickle.nodes.size()) {}

    void run() {
        const Cost cost = visit(pickle_.root, 0);
        if (cost.bytes > kMostExpanded)
            fail("{}: its objects share so many parts that they would need {} MiB", origin_,
                 cost.bytes >> 20);
    }

private:
    struct Cost {
        std::uint64_t bytes = 0;
        int depth = 0;
    };
    struct Seen {
        Cost cost;
        bool open = false, done = false;
    };

    Cost visit(std::uint32_t index, int above) {
        const PickleNode& node = pickle_[index];
        const bool big =
            node.kind == Kind::big && above > 0;  // the magic number of old files is one
        if (node.kind == Kind::storage || node.kind == Kind::global || big)
            fail("{}: a bare {}, which is not read; save a state dictionary", origin_,
                 kind_name(node.kind));
        if (seen_[index].open) fail("{}: an object that contains itself", origin_);
        if (above + seen_[index].cost.depth >= kMostDepth)
            fail("{}: nested more than {} deep", origin_, kMostDepth);
        if (seen_[index].done) return seen_[index].cost;
        seen_[index].open = true;
        // About what a value, its key and a vector's slack take.
        Cost cost{.bytes = 96 + node.text.size(), .depth = 0};
        if (node.kind == Kind::list || node.kind == Kind::tuple || node.kind == Kind::dictionary) {
            const std::vector<std::uint32_t>& children = pickle_.children(node);
            for (std::size_t i = 0; i < children.size(); ++i) {
                if (node.kind == Kind::dictionary && i % 2 == 0) check_key(pickle_[children[i]]);
                const Cost below = visit(children[i], above + 1);
                cost.bytes = std::min(cost.bytes + below.bytes, kMostExpanded + 1);
                cost.depth = std::max(cost.depth, below.depth + 1);
            }
        } else if (node.kind == Kind::tensor) {
            cost.bytes += 512;
        }
        seen_[index] = {.cost = cost, .open = false, .done = true};
        return cost;
    }

    void check_key(const PickleNode& key) const {
        if (key.kind != Kind::text && key.kind != Kind::integer)
            fail("{}: a dictionary with a {} as key; texts and integers are read", origin_,
                 kind_name(key.kind));
    }

    const Pickle& pickle_;
    const std::string& origin_;
    std::vector<Seen> seen_;
};

}  // namespace

void check_tree(const Pickle& pickle, const std::string& origin) {
    TreeCheck(pickle, origin).run();
}

}  // namespace alg
