// SPDX-License-Identifier: Apache-2.0
// How a program ends: its failure told on stderr, to the platform and to the launcher.
#include "common/base/contract.h"
#include "common/base/error.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace alg {

namespace {

constexpr std::size_t kLongestFailure = 1024;

/// Never in the middle of a UTF-8 character.
std::string shortened(std::string text, std::size_t limit) {
    if (text.size() <= limit) return text;
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    text.resize(limit);
    return text;
}

/// Where the failure file goes; empty: nowhere (a run from a shell that named no folder).
fs::path failure_folder(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--output" && i + 1 < argc) return argv[i + 1];
        if (option.starts_with("--output=")) return option.substr(std::strlen("--output="));
    }
    const fs::path folder = contract_root() / "output";
    std::error_code ignored;
    return fs::is_directory(folder, ignored) ? folder : fs::path();
}

/// Renamed into place: others may read at any time. Nothing is left when it cannot be written.
void write_whole(const fs::path& path, const std::string& text) {
    const fs::path temporary =
        path.parent_path() / format(".{}.{}", path.filename().string(), ::getpid());
    std::FILE* file = std::fopen(temporary.c_str(), "we");
    if (file == nullptr) return;
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    std::error_code error;
    if (std::fclose(file) == 0 && written)
        fs::rename(temporary, path, error);
    else
        error = std::make_error_code(std::errc::io_error);
    if (error) fs::remove(temporary, error);
}

/// As torch.distributed's @record does: the launcher looks for the first of all failures there.
void tell_launcher(const std::string& message) {
    const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (file == nullptr || *file == '\0') return;
    const nlohmann::json extra = {{"timestamp", std::to_string(std::time(nullptr))}};
    const nlohmann::json document = {{"message", {{"message", message}, {"extraInfo", extra}}}};
    write_whole(file, document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void report(int argc, const char* const* argv, fs::file_time_type started,
            const std::string& message) {
    std::string line = message;
    std::replace(line.begin(), line.end(), '\n', ' ');
    const std::string program = argc > 0 ? fs::path(argv[0]).filename().string() : "program";
    line = format("{}: {}\n", program, line);
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) std::clearerr(stderr);  // closed
    tell_launcher(message);
    const fs::path folder = failure_folder(argc, argv);
    if (folder.empty()) return;
    std::error_code absent;
    const auto written = fs::last_write_time(folder / "failure", absent);
    const char* processes = std::getenv("LOCAL_WORLD_SIZE");
    const bool several = processes != nullptr && std::strcmp(processes, "1") != 0;
    if (several && !absent && written >= started) return;
    write_failure(folder, message);
}

}  // namespace

void write_failure(const fs::path& output, const std::string& message) noexcept {
    try {
        fs::create_directories(output);
        write_whole(output / "failure", shortened(message, kLongestFailure));
    } catch (...) {  // the reason is on stderr already
    }
}

int run_program(int argc, const char* const* argv, int (*body)(int argc, const char* const* argv)) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader of stdout that goes away must not end the training
    const fs::file_time_type started = fs::file_time_type::clock::now();
    try {
        return body(argc, argv);
    } catch (const Failure& failure) {
        report(argc, argv, started, failure.what());
    } catch (const std::bad_alloc&) {
        report(argc, argv, started, "out of memory; use smaller batches or a larger instance");
    } catch (const std::exception& error) {
        // LibTorch appends a backtrace to the first line.
        const std::string text = error.what();
        report(argc, argv, started, "internal error: " + text.substr(0, text.find('\n')));
    } catch (...) {
        report(argc, argv, started, "internal error of an unknown kind");
    }
    return 1;
}

}  // namespace alg
