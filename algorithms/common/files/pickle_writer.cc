// SPDX-License-Identifier: Apache-2.0
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/files/pickle.h"

#include <bit>
#include <limits>

namespace alg {
namespace {

void little(std::string& out, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

void PickleWriter::integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
        out_ += 'K';
        little(out_, static_cast<std::uint64_t>(value), 1);
    } else if (value >= std::numeric_limits<std::int32_t>::min() &&
               value <= std::numeric_limits<std::int32_t>::max()) {
        out_ += 'J';
        little(out_, static_cast<std::uint64_t>(value), 4);
    } else {
        out_ += "\x8a\x08";
        little(out_, static_cast<std::uint64_t>(value), 8);
    }
}

void PickleWriter::number(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    out_ += 'G';
    for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i) & 0xff);
}

void PickleWriter::text(std::string_view value) {
    if (!is_utf8(value)) fail("a text is not UTF-8: \"{}\"", value.substr(0, 60));
    if (value.size() > 0xffffffffu) fail("a text of {} bytes is too long", value.size());
    out_ += 'X';
    little(out_, value.size(), 4);
    out_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
    out_ += format("c{}\n{}\n", module, name);
}

void PickleWriter::tuple(const std::vector<std::int64_t>& values) {
    mark();
    for (const std::int64_t value : values) integer(value);
    out_ += 't';
}

void PickleWriter::tensor(const TensorRef& tensor, std::string_view key, std::int64_t elements) {
    global("torch._utils", "_rebuild_tensor_v2");
    mark();
    mark();
    text("storage");
    global("torch", names_of(tensor.element).storage);
    text(key);
    text("cpu");
    integer(elements);
    out_ += "tQ";
    integer(tensor.offset);
    tuple(tensor.sizes);
    tuple(tensor.strides);
    boolean(false);  // requires_grad
    global("collections", "OrderedDict");
    out_ += ")R";  // no hooks
    out_ += "tR";
}

}  // namespace alg
