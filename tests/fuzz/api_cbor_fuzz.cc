// SPDX-License-Identifier: Apache-2.0
// CBOR of CloudWatch clients: refused with an error, or read, written and read again the same.
#include "api/cloudwatch/cbor.h"
#include "base/error.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        const ty::Json value = ty::api::cloudwatch::decode_cbor(bytes);
        const ty::Json again =
            ty::api::cloudwatch::decode_cbor(ty::api::cloudwatch::encode_cbor(value));
        if (again != value) std::abort();
    } catch (const ty::Error& error) {
        if (error.code() != ty::Code::invalid) std::abort();
    }
    return 0;
}
