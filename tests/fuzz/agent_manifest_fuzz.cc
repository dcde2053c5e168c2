// SPDX-License-Identifier: Apache-2.0
// The checkpoint manifest on hostile bytes: it is refused or reads back as it was. The input is
// also sealed as it should be, so that what lies behind the checksum is reached; whatever is
// accepted names only places below the folder.
#include "agent/checkpoint/manifest.h"
#include "agent/checkpoint/names.h"
#include "base/error.h"
#include "base/hash.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

const ty::agent::CheckpointId kName{{2, 5}, 7, "algo-1"};

void read(std::string_view text) {
    try {
        const ty::agent::Manifest manifest = ty::agent::parse_manifest(text, kName);
        for (const ty::agent::ManifestEntry& entry : manifest.entries) {
            if (!ty::agent::is_safe_path(entry.path)) std::abort();
            (void)ty::agent::step_of(entry.path);
        }
        const std::string once = ty::agent::to_json(manifest);
        if (ty::agent::to_json(ty::agent::parse_manifest(once, kName)) != once) std::abort();
    } catch (const ty::Error& error) {
        if (error.code() != ty::Code::corrupt) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    read(text);
    std::string body(text.substr(0, text.rfind(",\"sha256\":\"")));
    read(body + ",\"sha256\":\"" + ty::sha256_hex(body) + "\"}");
    (void)ty::agent::step_of_state(text);
    (void)ty::agent::step_of(text);
    (void)ty::agent::is_left_out(text);
    if (const auto id = ty::agent::CheckpointId::parse(text); id && id->str() != text) std::abort();
    return 0;
}
