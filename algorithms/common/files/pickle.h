// SPDX-License-Identifier: Apache-2.0
// The part of Python's pickle format that files of tensors need, interpreted against a list of
// allowed names. Nothing is executed: whatever is not on the list ends the reading with its name
// and offset. Without LibTorch; bytes in, a tree with references to storages out.
#pragma once

#include "common/files/elements.h"
#include "common/files/file.h"

#include <string>
#include <string_view>
#include <vector>

namespace alg {

/// A storage as a persistent id names it; its bytes are elsewhere in the file.
struct StorageRef {
    std::string key;
    std::uint64_t bytes = 0;
};
struct TensorRef {
    std::size_t storage = 0;  ///< index into Pickle::storages
    Element element = Element::f32;
    std::int64_t offset = 0;  ///< in elements, as the strides
    std::vector<std::int64_t> sizes, strides;
};

/// One object. Objects that the file shares are one node with several parents.
struct PickleNode {
    enum class Kind : std::uint8_t {
        none,
        boolean,  ///< integer 0 or 1
        integer,
        big,  ///< an integer of more than 64 bits; text: its bytes, lowest first
        number,
        text,  ///< valid UTF-8, in the bytes that were parsed
        list,
        tuple,
        dictionary,  ///< children: key, value, key, value, …; a key again replaces the earlier one
        tensor,      ///< integer: index into Pickle::tensors
        storage,     ///< integer: index into Pickle::storages
        global,      ///< one of the allowed functions and types
    };
    Kind kind = Kind::none;
    std::uint8_t detail = 0;
    Element element = Element::f32;
    std::uint32_t children = 0;  ///< index into Pickle::lists, for list, tuple and dictionary
    std::int64_t integer = 0;
    double number = 0;
    std::string_view text;
};

struct Pickle {
    std::vector<PickleNode> nodes;
    std::vector<std::vector<std::uint32_t>> lists;
    std::vector<StorageRef> storages;
    std::vector<TensorRef> tensors;
    std::uint32_t root = 0;
    std::size_t end = 0;  ///< where the next pickle of the same file would begin

    const PickleNode& top() const { return nodes[root]; }
    const PickleNode& operator[](std::uint32_t node) const { return nodes[node]; }
    const std::vector<std::uint32_t>& children(const PickleNode& node) const {
        return lists[node.children];
    }
};

/// Parses the pickle that begins at `start`. The result refers to `bytes`. What it promises: the
/// tree below the root has no cycles, is at most 100 deep and writes out to at most 512 MiB, holds
/// only kinds up to `tensor` (`big` as the root only) with text or integer keys, and every tensor
/// lies within its storage.
/// Throws Failure with `origin`, what is wrong, and the offset.
Pickle parse_pickle(Bytes bytes, const std::string& origin, std::size_t start = 0);

std::string_view kind_name(PickleNode::Kind kind);

/// Emits a pickle of protocol 2, as torch.save does.
class PickleWriter {
public:
    PickleWriter() : out_("\x80\x02") {}
    void none() { out_ += 'N'; }
    void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
    void integer(std::int64_t value);
    void number(double value);
    void text(std::string_view value);  ///< throws Failure unless UTF-8
    void empty_list() { out_ += ']'; }
    void empty_dictionary() { out_ += '}'; }
    void mark() { out_ += '('; }
    void append_marked() { out_ += 'e'; }  ///< what follows the mark, to the list before it
    void set_marked() { out_ += 'u'; }     ///< keys and values, to the dictionary before it
    /// torch._utils._rebuild_tensor_v2 of a storage of `elements` elements.
    void tensor(const TensorRef& tensor, std::string_view key, std::int64_t elements);
    std::string finish() { return std::move(out_ += '.'); }

private:
    void global(std::string_view module, std::string_view name);
    void tuple(const std::vector<std::int64_t>& values);
    std::string out_;
};

}  // namespace alg
