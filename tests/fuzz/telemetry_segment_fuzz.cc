// SPDX-License-Identifier: Apache-2.0
// A log stream's file as found on disk: whatever it holds, frames are taken whole or not at all.
#include "base/error.h"
#include "telemetry/frame.h"
#include "telemetry/frame_reader.h"

#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>

using namespace ty::telemetry;

namespace {

void read_payload(const FrameHeader& header, std::string_view payload) {
    const auto block = decode_payload(header, payload);
    if (!block) return;
    if (block->lines.size() != header.count) std::abort();
    ty::Instant last = header.first_time;
    for (std::size_t i = 0; i < block->lines.size(); ++i) {
        if (block->line(i).size() != block->lines[i].length) std::abort();
        if (block->lines[i].time < last) std::abort();
        last = block->lines[i].time;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    (void)decode_index_entry(bytes);
    // Without the checksum, which a fuzzer does not guess.
    if (const auto header = decode_header(bytes))
        read_payload(*header, bytes.substr(kFrameHeaderSize));
    const ty::sys::Fd file(memfd_create("lines", MFD_CLOEXEC));
    if (!file.is_open() || ::write(file.get(), data, size) != ssize_t(size)) return 0;
    const ty::sys::fs::path name = "lines";
    FrameReader reader(file, name, 0, size);
    while (const auto header = reader.peek()) {
        const auto payload = reader.payload(*header);
        if (!payload) break;
        read_payload(*header, *payload);
        reader.skip(*header);
    }
    return 0;
}
