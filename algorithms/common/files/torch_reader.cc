// SPDX-License-Identifier: Apache-2.0
// What torch.save wrote, as a Value: the zip form (PyTorch >= 1.6), whose storages stay in the
// mapped file, and the older form, a sequence of pickles followed by the storages.
#include "common/base/error.h"
#include "common/files/pickle.h"
#include "common/files/tensors.h"
#include "common/files/torch_elements.h"
#include "common/files/zip.h"

#include <unordered_map>

namespace alg {
namespace {

using Kind = PickleNode::Kind;

class ValueBuilder {
public:
    ValueBuilder(const Pickle& pickle, std::vector<c10::Storage> storages, std::string origin)
        : pickle_(pickle), storages_(std::move(storages)), origin_(std::move(origin)) {
        tensors_.reserve(pickle.tensors.size());
        for (const TensorRef& ref : pickle.tensors)
            tensors_.push_back(tensor_over(storages_[ref.storage], ref.element, ref.offset,
                                           ref.sizes, ref.strides));
    }

    // parse_pickle has bounded the depth and found no cycles.
    Value value(const PickleNode& node) const {
        switch (node.kind) {
            case Kind::none:
                return nullptr;
            case Kind::boolean:
                return node.integer != 0;
            case Kind::integer:
                return node.integer;
            case Kind::number:
                return node.number;
            case Kind::text:
                return std::string(node.text);
            case Kind::tensor:
                return tensors_[static_cast<std::size_t>(node.integer)];
            case Kind::list:
            case Kind::tuple: {
                std::vector<Value> items;
                items.reserve(pickle_.children(node).size());
                for (const std::uint32_t child : pickle_.children(node))
                    items.push_back(value(pickle_[child]));
                return items;
            }
            case Kind::dictionary:
                return dictionary(node);
            case Kind::big:
            case Kind::storage:
            case Kind::global:
                break;
        }
        fail("{}: a {} where a value is expected", origin_, kind_name(node.kind));
    }

private:
    Dictionary dictionary(const PickleNode& node) const {
        const std::vector<std::uint32_t>& children = pickle_.children(node);
        Dictionary result;
        result.reserve(children.size() / 2);
        std::unordered_map<std::string, std::size_t> places;
        for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
            const PickleNode& key = pickle_[children[i]];
            std::string name =
                key.kind == Kind::text ? std::string(key.text) : std::to_string(key.integer);
            const auto [place, added] = places.emplace(name, result.size());
            if (added)
                result.emplace_back(std::move(name), value(pickle_[children[i + 1]]));
            else  // as Python: the place of the first, the value of the last
                result[place->second].second = value(pickle_[children[i + 1]]);
        }
        return result;
    }

    const Pickle& pickle_;
    std::vector<c10::Storage> storages_;
    std::vector<at::Tensor> tensors_;
    std::string origin_;
};

Value read_zip(const std::shared_ptr<MappedFile>& file, const std::string& origin) {
    const ZipReader zip(file->bytes(), origin);
    if (zip.records().empty()) fail("{}: an archive without records", origin);
    const std::string& first = zip.records().front().name;
    const std::string folder = first.substr(0, first.find('/') + 1);
    if (zip.find(folder + "constants.pkl") != nullptr || folder.empty())
        fail("{}: {}; save the state dictionary with torch.save instead", origin,
             folder.empty() ? "an archive, but not of torch.save" : "a TorchScript archive");
    const ZipReader::Record* data = zip.find(folder + "data.pkl");
    if (data == nullptr) fail("{}: an archive, but not of torch.save: no data.pkl", origin);
    const ZipReader::Record* order = zip.find(folder + "byteorder");
    if (order != nullptr && as_text(zip.read(*order)) != "little")
        fail("{}: written on a machine of the other byte order; save it again on this one", origin);

    const Pickle pickle = parse_pickle(zip.read(*data), origin);
    std::vector<c10::Storage> storages;
    storages.reserve(pickle.storages.size());
    for (const StorageRef& ref : pickle.storages) {
        const ZipReader::Record* record = zip.find(folder + "data/" + ref.key);
        if (record == nullptr) fail("{}: damaged: no record for storage \"{}\"", origin, ref.key);
        if (record->data.size() != ref.bytes)
            fail("{}: damaged: storage \"{}\" has {} bytes instead of {}", origin, ref.key,
                 record->data.size(), ref.bytes);
        storages.push_back(map_storage(file, zip.read(*record)));
    }
    return ValueBuilder(pickle, std::move(storages), origin).value(pickle.top());
}

// Magic number, protocol version, what the machine was like, the object, the storages' keys; then
// for each key an int64 count of elements and the elements.
Value read_legacy(const std::shared_ptr<MappedFile>& file, const std::string& origin) {
    constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    const Bytes bytes = file->bytes();
    const Pickle magic = parse_pickle(bytes, origin);
    if (magic.top().text != kMagic) fail("{}: a pickle, but not of torch.save", origin);
    const Pickle version = parse_pickle(bytes, origin, magic.end);
    if (version.top().integer != 1001)
        fail("{}: version {} of torch.save is not read", origin, version.top().integer);
    const Pickle machine = parse_pickle(bytes, origin, version.end);
    const Value facts = ValueBuilder(machine, {}, origin).value(machine.top());
    const Value* little = facts.find("little_endian");
    if (little == nullptr || !std::holds_alternative<bool>(*little) || !std::get<bool>(*little))
        fail("{}: written on a machine of the other byte order; save it again on this one", origin);
    const Pickle pickle = parse_pickle(bytes, origin, machine.end);
    const Pickle keys = parse_pickle(bytes, origin, pickle.end);

    std::unordered_map<std::string_view, std::size_t> places;
    for (std::size_t i = 0; i < pickle.storages.size(); ++i)
        places.emplace(pickle.storages[i].key, i);
    std::vector<c10::Storage> storages(pickle.storages.size());
    std::size_t at = keys.end, found = 0;
    if (keys.top().kind != Kind::list) fail("{}: damaged: no list of storages", origin);
    for (const std::uint32_t key : keys.children(keys.top())) {
        const auto place = places.find(keys[key].text);
        if (place == places.end() || storages[place->second])
            fail("{}: damaged: storage \"{}\" is not used, or twice there", origin, keys[key].text);
        const std::uint64_t size = pickle.storages[place->second].bytes;
        if (bytes.size() - at < 8 || bytes.size() - at - 8 < size)
            fail("{}: cut off: storage \"{}\" is not all there", origin, keys[key].text);
        storages[place->second] = map_storage(file, bytes.subspan(at + 8, size));
        at += 8 + size;
        ++found;
    }
    if (found != storages.size()) fail("{}: damaged: a storage is missing", origin);
    return ValueBuilder(pickle, std::move(storages), origin).value(pickle.top());
}

}  // namespace

const Value* Value::find(const std::string& name) const {
    const auto* members = std::get_if<Dictionary>(this);
    if (members == nullptr) return nullptr;
    for (const auto& [key, value] : *members)
        if (key == name) return &value;
    return nullptr;
}

Value read_torch(const fs::path& path) {
    const auto file = std::make_shared<MappedFile>(path);
    const std::string_view head = as_text(file->bytes()).substr(0, 64);
    if (head.starts_with("PK")) return read_zip(file, path.string());
    if (head.starts_with("\x80")) return read_legacy(file, path.string());
    if (head.starts_with("version https://git-lfs"))
        fail("{}: only a pointer of git-lfs; fetch the file itself (git lfs pull)", path.string());
    fail("{}: not a file of torch.save{}", path.string(),
         file->bytes().empty() ? ": it is empty" : "");
}

}  // namespace alg
