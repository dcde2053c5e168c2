// SPDX-License-Identifier: Apache-2.0
// The inside of the pickle interpreter: the stack machine (pickle.cc), the names it knows
// (pickle_names.cc) and the check of its result (pickle_check.cc). Private to this folder.
#pragma once

#include "common/files/pickle.h"

#include <unordered_map>

namespace alg {

/// A node costs 48 bytes: bounds what a hostile file can make us hold.
inline constexpr std::size_t kMostNodes = 5'000'000;
inline constexpr std::size_t kMostMarks = 1000;
inline constexpr int kMostDepth = 100;
inline constexpr std::uint64_t kMostExpanded = std::uint64_t{512} << 20;

/// PickleNode::detail of a global.
enum class PickleGlobal : std::uint8_t {
    ordered_dict,
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_tensor_v3,
    rebuild_parameter,
    typed_storage,    ///< with its element
    untyped_storage,  ///< counts bytes
    dtype,            ///< with its element
    size,
    device,
};

class PickleMachine {
public:
    PickleMachine(Bytes bytes, const std::string& origin, std::size_t start)
        : bytes_(bytes), origin_(origin), at_(start) {}
    Pickle run();

private:
    static constexpr std::uint32_t kNone = 0, kTrue = 1, kFalse = 2;

    [[noreturn]] void refuse(const std::string& what) const;
    [[noreturn]] void refuse_opcode(std::uint8_t opcode) const;
    bool step();                            ///< false after STOP
    bool step_scalar(std::uint8_t opcode);  ///< these: false when the opcode is none of theirs
    bool step_container(std::uint8_t opcode);
    bool step_reference(std::uint8_t opcode);

    Bytes take(std::uint64_t count);
    std::uint64_t little(int width);
    std::string_view line();

    const PickleNode& node(std::uint32_t index) const { return result_.nodes[index]; }
    std::uint32_t add(const PickleNode& node);
    std::uint32_t add_children(PickleNode::Kind kind, std::vector<std::uint32_t> children);
    void push(std::uint32_t index) { stack_.push_back(index); }
    void push_integer(std::int64_t value) {
        push(add({.kind = PickleNode::Kind::integer, .integer = value}));
    }
    void push_long(std::uint64_t width);
    void push_text(Bytes text);
    void push_tuple(std::size_t count);
    std::uint32_t pop();
    std::uint32_t top() const;
    std::vector<std::uint32_t> pop_to_mark();
    void extend(PickleNode::Kind kind, const std::vector<std::uint32_t>& items);
    void remember(std::uint64_t slot);
    void recall(std::uint64_t slot);
    void drop_state();

    // pickle_names.cc
    void push_global(std::string_view module, std::string_view name);
    void push_storage(std::uint32_t id);
    std::uint32_t call(std::uint32_t function, std::uint32_t arguments);
    std::uint32_t call_ordered_dict(const std::vector<std::uint32_t>& arguments);
    std::uint32_t call_tensor(PickleGlobal function, const std::vector<std::uint32_t>& arguments);
    void check_reach(const TensorRef& tensor) const;
    const std::vector<std::uint32_t>& items_of(std::uint32_t index, PickleNode::Kind kind,
                                               const char* what) const;
    std::int64_t integer_of(std::uint32_t index, const char* what) const;
    std::vector<std::int64_t> integers_of(std::uint32_t index, const char* what) const;

    Bytes bytes_;
    const std::string& origin_;
    std::size_t at_, opcode_at_ = 0;
    Pickle result_;
    std::vector<std::uint32_t> stack_;
    std::vector<std::size_t> marks_;
    std::unordered_map<std::uint64_t, std::uint32_t> memo_;
    std::unordered_map<std::string_view, std::size_t> storage_by_key_;
};

/// The promises of parse_pickle about what is below the root.
void check_tree(const Pickle& pickle, const std::string& origin);

}  // namespace alg
