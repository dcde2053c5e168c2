// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pickle of torch.save: refused, or a tree without cycles whose tensors lie within
// their storages and which can be walked to its end.
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/files/pickle.h"

#include <cstdlib>

namespace {

using Kind = alg::PickleNode::Kind;

void require(bool holds) {
    if (!holds) std::abort();
}

void walk(const alg::Pickle& pickle, const alg::PickleNode& node, int depth, std::size_t& budget) {
    require(depth <= 100);
    if (budget == 0) return;  // walking the largest trees allowed takes seconds
    --budget;
    require(node.kind < Kind::storage);
    if (node.kind == Kind::tensor)
        require(static_cast<std::size_t>(node.integer) < pickle.tensors.size());
    if (node.kind == Kind::text) require(alg::is_utf8(node.text));
    if (node.kind != Kind::list && node.kind != Kind::tuple && node.kind != Kind::dictionary)
        return;
    for (const std::uint32_t child : pickle.children(node))
        walk(pickle, pickle[child], depth + 1, budget);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const alg::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const alg::Pickle pickle = alg::parse_pickle(bytes, "fuzz");
        require(pickle.end <= size);
        std::size_t budget = 100'000;
        if (pickle.top().kind != Kind::big) walk(pickle, pickle.top(), 0, budget);
        for (const alg::TensorRef& tensor : pickle.tensors) {
            const std::size_t width = alg::names_of(tensor.element).size;
            unsigned __int128 last = static_cast<std::uint64_t>(tensor.offset);
            bool empty = false;
            require(tensor.sizes.size() == tensor.strides.size());
            for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
                empty = empty || tensor.sizes[i] == 0;
                if (tensor.sizes[i] > 0)
                    last += static_cast<unsigned __int128>(tensor.sizes[i] - 1) *
                            static_cast<unsigned __int128>(tensor.strides[i]);
            }
            require(empty || (last + 1) * width <= pickle.storages.at(tensor.storage).bytes);
        }
    } catch (const alg::Failure&) {
    }
    return 0;
}
