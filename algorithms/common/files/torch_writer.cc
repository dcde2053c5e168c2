// SPDX-License-Identifier: Apache-2.0
// Values as torch.save writes them. First the pickle, small, with the storages it meets; then the
// storages one after the other, straight from the tensors' memory: nothing is held twice.
#include "common/base/error.h"
#include "common/files/atomic_file.h"
#include "common/files/pickle.h"
#include "common/files/tensors.h"
#include "common/files/torch_elements.h"
#include "common/files/zip.h"

#include <unordered_map>

namespace alg {
namespace {

class ValuePickle {
public:
    std::string text(const Value& value) {
        emit(value, "", 0);
        return pickle_.finish();
    }
    /// One tensor of each storage, in the order of their keys.
    const std::vector<at::Tensor>& storages() const { return storages_; }

private:
    void emit(const Value& value, const std::string& name, int depth) {
        if (depth > 100) fail("\"{}\" is nested more than 100 deep", name);
        if (std::holds_alternative<std::nullptr_t>(value)) {
            pickle_.none();
        } else if (const auto* flag = std::get_if<bool>(&value)) {
            pickle_.boolean(*flag);
        } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
            pickle_.integer(*integer);
        } else if (const auto* number = std::get_if<double>(&value)) {
            pickle_.number(*number);
        } else if (const auto* content = std::get_if<std::string>(&value)) {
            pickle_.text(*content);
        } else if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
            emit_tensor(*tensor, name);
        } else if (const auto* items = std::get_if<std::vector<Value>>(&value)) {
            pickle_.empty_list();
            pickle_.mark();
            for (const Value& item : *items) emit(item, name, depth + 1);
            pickle_.append_marked();
        } else {
            emit_dictionary(std::get<Dictionary>(value), name, depth);
        }
    }

    void emit_dictionary(const Dictionary& members, const std::string& name, int depth) {
        pickle_.empty_dictionary();
        pickle_.mark();
        for (const auto& [key, member] : members) {
            pickle_.text(key);
            emit(member, name.empty() ? key : name + "." + key, depth + 1);
        }
        pickle_.set_marked();
    }

    void emit_tensor(const at::Tensor& tensor, const std::string& name) {
        TensorRef ref{.element = element_of(tensor, name)};
        const std::size_t size = names_of(ref.element).size;
        // Views of one storage stay views; two types over the same bytes cannot be said.
        const c10::Storage& storage = tensor.storage();
        const auto [place, added] = keys_.emplace(storage.unsafeGetStorageImpl(), storages_.size());
        if (added)
            storages_.push_back(tensor);
        else if (storages_[place->second].scalar_type() != tensor.scalar_type())
            fail("tensor \"{}\" shares its memory with one of another type", name);
        ref.offset = tensor.storage_offset();
        ref.sizes = tensor.sizes().vec();
        ref.strides = tensor.strides().vec();
        pickle_.tensor(ref, std::to_string(place->second),
                       static_cast<std::int64_t>(storage.nbytes() / size));
    }

    PickleWriter pickle_;
    std::unordered_map<const c10::StorageImpl*, std::size_t> keys_;
    std::vector<at::Tensor> storages_;
};

void write_storage(ZipWriter& zip, const std::string& key, const at::Tensor& owner) {
    const c10::Storage& storage = owner.storage();
    const std::size_t size = owner.element_size();
    const auto count = static_cast<std::int64_t>(storage.nbytes() / size);
    const at::Tensor whole = owner.detach().as_strided({count}, {1}, 0).cpu();
    zip.add(key, {static_cast<const std::byte*>(whole.const_data_ptr()),
                  static_cast<std::size_t>(count) * size});
}

}  // namespace

void write_torch(const fs::path& file, const Value& value) {
    ValuePickle pickle;
    const std::string data = pickle.text(value);
    write_atomically(file, [&](const fs::path& path) {
        OutputFile out(path);
        ZipWriter zip(out);
        // LibTorch's reader takes the folder of the first record for the archive's.
        zip.add("archive/data.pkl", as_bytes(data));
        zip.add("archive/.format_version", as_bytes("1"));
        zip.add("archive/.storage_alignment", as_bytes("64"));
        zip.add("archive/byteorder", as_bytes("little"));
        for (std::size_t i = 0; i < pickle.storages().size(); ++i)
            write_storage(zip, format("archive/data/{}", i), pickle.storages()[i]);
        zip.add("archive/version", as_bytes("3\n"));
        zip.finish();
        out.close();
    });
}

}  // namespace alg
