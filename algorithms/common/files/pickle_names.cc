// SPDX-License-Identifier: Apache-2.0
// The names a pickle may use, what calling them yields, and names for what is refused.
#include "common/base/error.h"
#include "common/files/pickle_machine.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace alg {

using Kind = PickleNode::Kind;

namespace {

struct Allowed {
    std::string_view module, name;
    PickleGlobal global;
};
constexpr std::array kAllowed{
    Allowed{"collections", "OrderedDict", PickleGlobal::ordered_dict},
    Allowed{"torch._utils", "_rebuild_tensor", PickleGlobal::rebuild_tensor},
    Allowed{"torch._utils", "_rebuild_tensor_v2", PickleGlobal::rebuild_tensor_v2},
    Allowed{"torch._utils", "_rebuild_tensor_v3", PickleGlobal::rebuild_tensor_v3},
    Allowed{"torch._utils", "_rebuild_parameter", PickleGlobal::rebuild_parameter},
    Allowed{"torch.storage", "UntypedStorage", PickleGlobal::untyped_storage},
    Allowed{"torch", "UntypedStorage", PickleGlobal::untyped_storage},
    Allowed{"torch", "Size", PickleGlobal::size},
    Allowed{"torch", "device", PickleGlobal::device},
};

constexpr std::array kRefusedOpcodes{
    std::pair{std::uint8_t{'i'}, "INST"},         std::pair{std::uint8_t{'o'}, "OBJ"},
    std::pair{std::uint8_t{0x81}, "NEWOBJ"},      std::pair{std::uint8_t{0x92}, "NEWOBJ_EX"},
    std::pair{std::uint8_t{0x82}, "EXT1"},        std::pair{std::uint8_t{0x83}, "EXT2"},
    std::pair{std::uint8_t{0x84}, "EXT4"},        std::pair{std::uint8_t{'P'}, "PERSID"},
    std::pair{std::uint8_t{'B'}, "BINBYTES"},     std::pair{std::uint8_t{'C'}, "SHORT_BINBYTES"},
    std::pair{std::uint8_t{0x8e}, "BINBYTES8"},   std::pair{std::uint8_t{0x96}, "BYTEARRAY8"},
    std::pair{std::uint8_t{0x97}, "NEXT_BUFFER"}, std::pair{std::uint8_t{0x98}, "READONLY_BUFFER"},
    std::pair{std::uint8_t{0x8f}, "EMPTY_SET"},   std::pair{std::uint8_t{0x90}, "ADDITEMS"},
    std::pair{std::uint8_t{0x91}, "FROZENSET"},   std::pair{std::uint8_t{'S'}, "STRING"},
    std::pair{std::uint8_t{'V'}, "UNICODE"},      std::pair{std::uint8_t{'I'}, "INT"},
    std::pair{std::uint8_t{'L'}, "LONG"},         std::pair{std::uint8_t{'F'}, "FLOAT"},
    std::pair{std::uint8_t{'p'}, "PUT"},          std::pair{std::uint8_t{'g'}, "GET"},
    std::pair{std::uint8_t{'d'}, "DICT"},         std::pair{std::uint8_t{'l'}, "LIST"},
};

}  // namespace

void PickleMachine::refuse_opcode(std::uint8_t opcode) const {
    for (const auto& [code, name] : kRefusedOpcodes)
        if (code == opcode) refuse(format("pickle opcode {} is not allowed", name));
    refuse(format("no pickle: byte {:#04x} is no opcode", opcode));
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
    PickleNode global{.kind = Kind::global};
    const auto set = [&](PickleGlobal value, Element element) {
        global.detail = static_cast<std::uint8_t>(value);
        global.element = element;
        push(add(global));
    };
    for (const Allowed& allowed : kAllowed)
        if (allowed.module == module && allowed.name == name)
            return set(allowed.global, Element::u8);
    if (module == "torch") {
        if (const auto storage = find_element(&ElementNames::storage, name))
            return set(PickleGlobal::typed_storage, *storage);
        if (const auto dtype = find_element(&ElementNames::dtype, name))
            return set(PickleGlobal::dtype, *dtype);
    }
    refuse(
        format("\"{}.{}\" is not allowed: only tensors, numbers, texts and containers of them "
               "are read, and nothing is executed; save a state dictionary",
               module.substr(0, 200), name.substr(0, 200)));
}

const std::vector<std::uint32_t>& PickleMachine::items_of(std::uint32_t index, Kind kind,
                                                          const char* what) const {
    const PickleNode& found = node(index);
    if (found.kind != kind)
        refuse(format("{}: a {} instead of a {}", what, kind_name(found.kind), kind_name(kind)));
    return result_.lists[found.children];
}

std::int64_t PickleMachine::integer_of(std::uint32_t index, const char* what) const {
    const PickleNode& found = node(index);
    if (found.kind != Kind::integer || found.integer < 0)
        refuse(format("{}: no count but {}", what, kind_name(found.kind)));
    return found.integer;
}

std::vector<std::int64_t> PickleMachine::integers_of(std::uint32_t index, const char* what) const {
    const std::vector<std::uint32_t>& items = items_of(index, Kind::tuple, what);
    if (items.size() > 64) refuse(format("{}: {} dimensions", what, items.size()));
    std::vector<std::int64_t> values;
    values.reserve(items.size());
    for (const std::uint32_t item : items) values.push_back(integer_of(item, what));
    return values;
}

/// ("storage", type, key, location, number of elements[, view of another storage])
void PickleMachine::push_storage(std::uint32_t id) {
    const std::vector<std::uint32_t>& parts = items_of(id, Kind::tuple, "a storage's id");
    if (parts.size() < 5 || parts.size() > 6 || node(parts[0]).text != "storage")
        refuse("a persistent id that names no storage");
    const PickleNode &type = node(parts[1]), &key = node(parts[2]);
    const auto global = static_cast<PickleGlobal>(type.detail);
    if (type.kind != Kind::global ||
        (global != PickleGlobal::typed_storage && global != PickleGlobal::untyped_storage))
        refuse("a storage whose type is no storage type");
    if (key.kind != Kind::text) refuse("a storage without a key");
    if (parts.size() == 6 && node(parts[5]).kind != Kind::none)
        refuse("a storage that is a view of another one, as PyTorch 0.1 wrote; save it again");
    const auto count = static_cast<std::uint64_t>(integer_of(parts[4], "a storage's size"));
    const std::uint64_t size = names_of(type.element).size;
    if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size)
        refuse(format("a storage of {} elements", count));
    const auto [known, added] = storage_by_key_.emplace(key.text, result_.storages.size());
    if (added)
        result_.storages.push_back({.key = std::string(key.text), .bytes = count * size});
    else if (result_.storages[known->second].bytes != count * size)
        refuse(format("storage \"{}\" with two sizes", key.text));
    push(add({.kind = Kind::storage,
              .detail = type.detail,
              .element = type.element,
              .integer = static_cast<std::int64_t>(known->second)}));
}

std::uint32_t PickleMachine::call(std::uint32_t function, std::uint32_t arguments) {
    const PickleNode called = node(function);
    if (called.kind != Kind::global)
        refuse(format("a call of a {}, which is no function", kind_name(called.kind)));
    const std::vector<std::uint32_t>& given = items_of(arguments, Kind::tuple, "arguments");
    const auto global = static_cast<PickleGlobal>(called.detail);
    switch (global) {
        case PickleGlobal::ordered_dict:
            return call_ordered_dict(given);
        case PickleGlobal::rebuild_tensor:
        case PickleGlobal::rebuild_tensor_v2:
        case PickleGlobal::rebuild_tensor_v3:
            return call_tensor(global, given);
        case PickleGlobal::rebuild_parameter:  // (tensor, requires_grad, hooks)
            if (given.empty() || node(given[0]).kind != Kind::tensor)
                refuse("a parameter without a tensor");
            return given[0];
        case PickleGlobal::size:  // (tuple)
            if (given.size() != 1) refuse("a size without its tuple");
            items_of(given[0], Kind::tuple, "a size");
            return given[0];
        case PickleGlobal::device:  // (name[, index])
            if (given.empty() || node(given[0]).kind != Kind::text)
                refuse("a device without a name");
            return given[0];
        case PickleGlobal::typed_storage:
        case PickleGlobal::untyped_storage:
        case PickleGlobal::dtype:
            break;
    }
    refuse("a call of a type, which is refused");
}

std::uint32_t PickleMachine::call_ordered_dict(const std::vector<std::uint32_t>& arguments) {
    std::vector<std::uint32_t> items;
    if (arguments.size() > 1) refuse("an OrderedDict with more than one argument");
    if (arguments.size() == 1) {  // pairs, as Python 2 wrote it
        for (const std::uint32_t pair : items_of(arguments[0], Kind::list, "an OrderedDict")) {
            const Kind kind = node(pair).kind == Kind::tuple ? Kind::tuple : Kind::list;
            const std::vector<std::uint32_t>& both = items_of(pair, kind, "an OrderedDict's item");
            if (both.size() != 2) refuse("an OrderedDict's item that is no pair");
            items.insert(items.end(), both.begin(), both.end());
        }
    }
    return add_children(Kind::dictionary, std::move(items));
}

/// The last element must lie in the storage: every product and sum checked, since the numbers are
/// the file's.
void PickleMachine::check_reach(const TensorRef& tensor) const {
    std::int64_t last = tensor.offset, product = 1;
    bool empty = false, overflow = false;
    for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
        const std::int64_t size = tensor.sizes[i];
        std::int64_t reach = 0;
        empty = empty || size == 0;
        overflow |= __builtin_mul_overflow(std::max<std::int64_t>(size, 1), product, &product);
        overflow |=
            __builtin_mul_overflow(std::max<std::int64_t>(size - 1, 0), tensor.strides[i], &reach);
        overflow |= __builtin_add_overflow(last, reach, &last);
    }
    if (empty) last = tensor.offset - 1;
    const std::uint64_t held =
        result_.storages[tensor.storage].bytes / names_of(tensor.element).size;
    if (overflow || last >= static_cast<std::int64_t>(held))
        refuse(format("a tensor that reaches beyond its storage of {} elements", held));
}

/// (storage, offset, sizes, strides[, requires_grad, hooks[, dtype (v3) or metadata]])
std::uint32_t PickleMachine::call_tensor(PickleGlobal function,
                                         const std::vector<std::uint32_t>& arguments) {
    const bool v3 = function == PickleGlobal::rebuild_tensor_v3;
    if (arguments.size() < (v3 ? 7 : 4) || arguments.size() > 8) refuse("a tensor lacks arguments");
    const PickleNode& storage = node(arguments[0]);
    if (storage.kind != Kind::storage)
        refuse(format("a tensor with a {} as its storage", kind_name(storage.kind)));
    TensorRef tensor{.storage = static_cast<std::size_t>(storage.integer),
                     .element = storage.element,
                     .offset = integer_of(arguments[1], "a tensor's offset"),
                     .sizes = integers_of(arguments[2], "a tensor's sizes"),
                     .strides = integers_of(arguments[3], "a tensor's strides")};
    if (v3) {
        const PickleNode& dtype = node(arguments[6]);
        if (dtype.kind != Kind::global ||
            static_cast<PickleGlobal>(dtype.detail) != PickleGlobal::dtype)
            refuse("a tensor without an element type");
        tensor.element = dtype.element;
    } else if (static_cast<PickleGlobal>(storage.detail) == PickleGlobal::untyped_storage) {
        refuse("a tensor without an element type");
    }
    if (tensor.sizes.size() != tensor.strides.size())
        refuse("a tensor with another number of strides than of sizes");
    check_reach(tensor);
    result_.tensors.push_back(std::move(tensor));
    return add(
        {.kind = Kind::tensor, .integer = static_cast<std::int64_t>(result_.tensors.size() - 1)});
}

}  // namespace alg
