// SPDX-License-Identifier: Apache-2.0
// deps: ty_agent ty_base ty_sys
// The agent's tar and gzip of a folder, as it makes model.tar.gz. Usage: bench_archive_rate FOLDER
// OUT
#include "agent/transfer/gzip.h"
#include "agent/transfer/tar_writer.h"
#include "agent/transfer/tree.h"
#include "sys/sys.h"

#include <fcntl.h>

#include <cstdio>

int main(int argc, char** argv) {
    using namespace ty;
    if (argc < 3) return std::fprintf(stderr, "usage: see the source\n"), 2;
    const sys::Fd out = sys::open_write(argv[2], O_TRUNC);
    agent::GzipWriter gzip([&](std::string_view data) { sys::write_all(out.get(), data); });
    const auto warn = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
    agent::write_tar(
        argv[1], agent::read_tree(argv[1], warn), [&](std::string_view data) { gzip.write(data); },
        warn, [](std::uint64_t) {});
    gzip.finish();
}
