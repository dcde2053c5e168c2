// SPDX-License-Identifier: Apache-2.0
// The interpreter: a stack machine over nodes of an arena. Lists, dictionaries and what the memo
// remembers are indices, so that a file may refer to itself without harm; the tree that results is
// checked afterwards (pickle_check.cc).
#include "common/files/pickle.h"

#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/files/pickle_machine.h"

#include <bit>

namespace alg {

using Kind = PickleNode::Kind;

std::string_view kind_name(Kind kind) {
    switch (kind) {
        case Kind::none:
            return "None";
        case Kind::boolean:
            return "bool";
        case Kind::integer:
            return "int";
        case Kind::big:
            return "int of more than 64 bits";
        case Kind::number:
            return "float";
        case Kind::text:
            return "str";
        case Kind::list:
            return "list";
        case Kind::tuple:
            return "tuple";
        case Kind::dictionary:
            return "dict";
        case Kind::tensor:
            return "tensor";
        case Kind::storage:
            return "storage";
        case Kind::global:
            return "function or type";
    }
    return "object";
}

void PickleMachine::refuse(const std::string& what) const {
    fail("{}: {} (at byte {})", origin_, what, opcode_at_);
}

Bytes PickleMachine::take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("the pickle is cut off");
    const Bytes taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
}

std::uint64_t PickleMachine::little(int width) {
    const Bytes taken = take(static_cast<std::uint64_t>(width));
    std::uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i)
        value = value << 8 | static_cast<std::uint64_t>(taken[static_cast<std::size_t>(i)]);
    return value;
}

std::string_view PickleMachine::line() {
    const std::string_view rest = as_text(bytes_.subspan(at_));
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) refuse("the pickle is cut off");
    at_ += length + 1;
    return rest.substr(0, length);
}

std::uint32_t PickleMachine::add(const PickleNode& node) {
    if (result_.nodes.size() >= kMostNodes)
        refuse(format("more than {} objects; save numbers as tensors", kMostNodes));
    result_.nodes.push_back(node);
    return static_cast<std::uint32_t>(result_.nodes.size() - 1);
}

std::uint32_t PickleMachine::add_children(Kind kind, std::vector<std::uint32_t> children) {
    result_.lists.push_back(std::move(children));
    return add({.kind = kind, .children = static_cast<std::uint32_t>(result_.lists.size() - 1)});
}

void PickleMachine::push_text(Bytes text) {
    if (!is_utf8(as_text(text))) refuse("a text that is not UTF-8");
    push(add({.kind = Kind::text, .text = as_text(text)}));
}

std::uint32_t PickleMachine::pop() {
    // What lies below a mark belongs to whoever set the mark.
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
        refuse("the pickle's stack is empty");
    const std::uint32_t node = stack_.back();
    stack_.pop_back();
    return node;
}

std::uint32_t PickleMachine::top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
        refuse("the pickle's stack is empty");
    return stack_.back();
}

std::vector<std::uint32_t> PickleMachine::pop_to_mark() {
    if (marks_.empty()) refuse("the pickle lacks a mark");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
}

void PickleMachine::push_tuple(std::size_t count) {
    std::vector<std::uint32_t> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push(add_children(Kind::tuple, std::move(items)));
}

void PickleMachine::extend(Kind kind, const std::vector<std::uint32_t>& items) {
    const PickleNode& target = node(top());
    if (target.kind != kind)
        refuse(format("items for a {}, which is no {}", kind_name(target.kind), kind_name(kind)));
    if (kind == Kind::dictionary && items.size() % 2 != 0) refuse("a key without a value");
    std::vector<std::uint32_t>& children = result_.lists[target.children];
    children.insert(children.end(), items.begin(), items.end());
}

void PickleMachine::push_long(std::uint64_t width) {
    const Bytes digits = take(width);
    if (width > 8) {
        push(add({.kind = Kind::big, .text = as_text(digits)}));
        return;
    }
    // Two's complement of as many bytes as there are.
    const bool negative = width > 0 && (digits.back() & std::byte{0x80}) != std::byte{0};
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;)
        value = value << 8 | static_cast<std::uint64_t>(digits[i]);
    push_integer(static_cast<std::int64_t>(value));
}

void PickleMachine::remember(std::uint64_t slot) {
    if (memo_.size() >= kMostNodes) refuse("too many remembered objects");
    memo_[slot] = top();
}

void PickleMachine::recall(std::uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) refuse(format("the pickle refers to object {} it lacks", slot));
    push(found->second);
}

/// What BUILD would set: the attributes of an OrderedDict (state dictionaries carry their versions
/// there), which are of no use to us.
void PickleMachine::drop_state() {
    pop();
    const Kind kind = node(top()).kind;
    if (kind != Kind::dictionary)
        refuse(format("attributes for a {}, which are refused", kind_name(kind)));
}

/// Numbers and texts.
bool PickleMachine::step_scalar(std::uint8_t opcode) {
    switch (opcode) {
        case 'N':
            push(kNone);
            break;
        case 0x88:
            push(kTrue);
            break;
        case 0x89:
            push(kFalse);
            break;
        case 'J':
            push_integer(std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(little(4))));
            break;
        case 'K':
            push_integer(static_cast<std::int64_t>(little(1)));
            break;
        case 'M':
            push_integer(static_cast<std::int64_t>(little(2)));
            break;
        case 0x8a:
            push_long(little(1));
            break;
        case 0x8b:
            push_long(little(4));
            break;
        case 'G':
            push(add({.kind = Kind::number,
                      .number = std::bit_cast<double>(__builtin_bswap64(little(8)))}));
            break;
        case 'U':
        case 0x8c:
            push_text(take(little(1)));
            break;
        case 'T':
        case 'X':
            push_text(take(little(4)));
            break;
        case 0x8d:
            push_text(take(little(8)));
            break;
        default:
            return false;
    }
    return true;
}

/// Lists, tuples and dictionaries.
bool PickleMachine::step_container(std::uint8_t opcode) {
    switch (opcode) {
        case ']':
            push(add_children(Kind::list, {}));
            break;
        case '}':
            push(add_children(Kind::dictionary, {}));
            break;
        case ')':
            push_tuple(0);
            break;
        case 0x85:
            push_tuple(1);
            break;
        case 0x86:
            push_tuple(2);
            break;
        case 0x87:
            push_tuple(3);
            break;
        case 't':
            push(add_children(Kind::tuple, pop_to_mark()));
            break;
        case 'a':
            extend(Kind::list, {pop()});
            break;
        case 'e':
            extend(Kind::list, pop_to_mark());
            break;
        case 's': {
            const std::uint32_t value = pop(), key = pop();
            extend(Kind::dictionary, {key, value});
            break;
        }
        case 'u':
            extend(Kind::dictionary, pop_to_mark());
            break;
        default:
            return false;
    }
    return true;
}

/// Names, calls, storages and the memo.
bool PickleMachine::step_reference(std::uint8_t opcode) {
    switch (opcode) {
        case 'q':
            remember(little(1));
            break;
        case 'r':
            remember(little(4));
            break;
        case 0x94:
            remember(memo_.size());
            break;  // MEMOIZE
        case 'h':
            recall(little(1));
            break;
        case 'j':
            recall(little(4));
            break;
        case 'c': {
            const std::string_view module = line();
            push_global(module, line());
            break;
        }
        case 0x93: {  // STACK_GLOBAL
            const PickleNode name = node(pop()), module = node(pop());
            if (name.kind != Kind::text || module.kind != Kind::text)
                refuse("a global without a name");
            push_global(module.text, name.text);
            break;
        }
        case 'R': {
            const std::uint32_t arguments = pop();
            push(call(pop(), arguments));
            break;
        }
        case 'Q':
            push_storage(pop());
            break;  // BINPERSID
        case 'b':
            drop_state();
            break;
        default:
            return false;
    }
    return true;
}

bool PickleMachine::step() {
    opcode_at_ = at_;
    if (stack_.size() >= kMostNodes) refuse("too many objects at once");
    const auto opcode = static_cast<std::uint8_t>(little(1));
    switch (opcode) {
        case '.':
            return false;  // STOP
        case 0x80:         // PROTO
            if (const std::uint64_t version = little(1); version < 2 || version > 5)
                refuse(format("pickle protocol {}, of which 2 to 5 are read", version));
            return true;
        case 0x95:
            little(8);
            return true;  // FRAME
        case '(':
            if (marks_.size() >= kMostMarks) refuse("marks nested too deep");
            marks_.push_back(stack_.size());
            return true;
        case '0':
            pop();
            return true;
        case '1':
            pop_to_mark();
            return true;
        case '2':
            push(top());
            return true;  // DUP
        default:
            break;
    }
    if (step_scalar(opcode) || step_container(opcode) || step_reference(opcode)) return true;
    refuse_opcode(opcode);
}

Pickle PickleMachine::run() {
    for (const Kind kind : {Kind::none, Kind::boolean, Kind::boolean}) add({.kind = kind});
    result_.nodes[kTrue].integer = 1;
    while (step()) {
    }
    result_.root = pop();
    if (!stack_.empty() || !marks_.empty()) refuse("the pickle ends in the middle of something");
    result_.end = at_;
    check_tree(result_, origin_);
    return std::move(result_);
}

Pickle parse_pickle(Bytes bytes, const std::string& origin, std::size_t start) {
    if (start > bytes.size()) fail("{}: the file is cut off", origin);
    return PickleMachine(bytes, origin, start).run();
}

}  // namespace alg
