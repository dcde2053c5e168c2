// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a stranger sends to a coordinator, and as a coordinator's log: frames are cut,
// the first is a handshake, the rest messages; all of it is refused with invalid or denied, or
// read.
#include "agent/launcher/coordinator/coordinator_log.h"
#include "agent/launcher/link/frames.h"
#include "base/error.h"
#include "rendezvous/rendezvous.h"

#include <cstdint>

namespace {

template <typename Fn>
void attempt(Fn fn) {
    try {
        fn();
    } catch (const ty::Error& error) {
        TY_ASSERT(error.code() == ty::Code::invalid || error.code() == ty::Code::denied);
    }
}

void serve(std::string_view stream) {
    using namespace ty::agent;
    const JobSecret secret{.run_id = "job", .token = "secret"};
    FrameReader reader(kHandshakeLimit);
    bool first = true;
    // In two parts, cut where the bytes say.
    const std::size_t cut = stream.empty() ? 0 : static_cast<unsigned char>(stream[0]);
    for (const std::string_view part :
         {stream.substr(0, cut), stream.substr(std::min(cut, stream.size()))}) {
        reader.append(part);
        while (const auto frame = reader.next()) {
            if (std::exchange(first, false)) {
                attempt([&] { admit(secret, "host", "nonce", *frame); });
                attempt([&] { Introduction(secret, "node").verify(*frame); });
                ty::SeededIds ids(1);
                attempt([&] { Introduction(secret, "node").answer(*frame, ids); });
                reader.set_limit(kUpLimit);
            }
            attempt([&] { ty::rendezvous::decode_up(*frame); });
            attempt([&] { ty::rendezvous::decode_down(*frame); });
        }
        TY_ASSERT(reader.buffered() <= stream.size());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view stream(reinterpret_cast<const char*>(data), size);
    attempt([stream] { serve(stream); });
    if (const auto record = ty::agent::newest_record(stream)) {
        const std::string again = ty::agent::encode_record(record->sequence, record->snapshot);
        TY_ASSERT(ty::agent::newest_record(again)->snapshot == record->snapshot);
    }
    return 0;
}
