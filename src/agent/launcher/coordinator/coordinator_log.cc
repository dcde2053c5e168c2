// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/coordinator/coordinator_log.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr std::uint64_t kRewriteAt = 1u << 20;
constexpr std::string_view kMagic = "trainyard";

/// "trainyard 7 1234 <checksum>", before the snapshot and a line end.
struct Header {
    std::int64_t sequence = 0;
    std::size_t size = 0;
    std::string checksum;
};

std::string checksum_of(std::string_view snapshot) {
    Hasher hasher(HashKind::crc64nvme);
    hasher.update(snapshot);
    return to_hex(as_bytes(hasher.finish()));
}

std::optional<Header> parse_header(std::string_view line) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() != 4 || words[0] != kMagic) return std::nullopt;
    const auto sequence = parse_int(words[1]);
    const auto size = parse_int(words[2]);
    if (!sequence || !size || *size < 0) return std::nullopt;
    return Header{*sequence, static_cast<std::size_t>(*size), words[3]};
}

std::string read_slot(int fd) {
    struct stat facts = {};
    if (::fstat(fd, &facts) != 0 || facts.st_size <= 0) return {};
    std::string content(static_cast<std::size_t>(facts.st_size), '\0');
    std::size_t done = 0;
    while (done < content.size()) {
        const ssize_t got =
            ::pread(fd, content.data() + done, content.size() - done, static_cast<off_t>(done));
        if (got <= 0) break;
        done += static_cast<std::size_t>(got);
    }
    content.resize(done);
    return content;
}

}  // namespace

std::string encode_record(std::int64_t sequence, std::string_view snapshot) {
    return format("{} {} {} {}\n{}\n", kMagic, sequence, snapshot.size(), checksum_of(snapshot),
                  snapshot);
}

std::optional<LogRecord> newest_record(std::string_view content) {
    std::optional<LogRecord> newest;
    while (!content.empty()) {
        const auto line_end = content.find('\n');
        if (line_end == std::string_view::npos || line_end > 256) break;
        const std::optional<Header> header = parse_header(content.substr(0, line_end));
        const std::string_view rest = content.substr(line_end + 1);
        // Room for the body and its line end; written so that no size can overflow.
        if (!header || rest.size() <= header->size) break;
        const std::string_view body = rest.substr(0, header->size);
        if (rest[header->size] != '\n' || checksum_of(body) != header->checksum) break;
        newest = LogRecord{header->sequence, std::string(body)};
        content = rest.substr(header->size + 1);
    }
    return newest;
}

sys::fs::path CoordinatorLog::path_for(const sys::fs::path& folder, std::string_view run_id,
                                       std::string_view endpoint) {
    const std::string hash = sha256_hex(format("{}\n{}", run_id, endpoint));
    return folder / format("rendezvous-{}.log", hash.substr(0, 24));
}

std::optional<LogRecord> CoordinatorLog::load(const sys::fs::path& path, const Clock& clock,
                                              milliseconds freshness) {
    struct stat facts = {};
    if (path.empty() || ::stat(path.c_str(), &facts) != 0) return std::nullopt;
    const Instant written = from_epoch_millis(static_cast<long long>(facts.st_mtime) * 1000);
    if (clock.now() - written > freshness) return std::nullopt;
    try {
        return newest_record(sys::read_file(path));
    } catch (const Error&) {
        return std::nullopt;  // unreadable is as good as absent: nothing can be continued from it
    }
}

void CoordinatorLog::remove(const sys::fs::path& path) {
    if (!path.empty()) ::unlink(path.c_str());
}

bool CoordinatorLog::is_private(const sys::fs::path& folder) {
    struct stat facts = {};
    if (::lstat(folder.c_str(), &facts) != 0) return errno == ENOENT;
    return S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & 022) == 0;
}

void CoordinatorLog::open() {
    file_ = sys::open_write(path_, O_APPEND, 0600);
    struct stat facts = {};
    size_ = ::fstat(file_.get(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

void CoordinatorLog::append(std::int64_t sequence, std::string_view snapshot) {
    if (path_.empty()) return;
    const std::string record = encode_record(sequence, snapshot);
    // A file of an earlier coordinator may end in a torn record, behind which nothing would be
    // found: the first record always makes a new file.
    if (!appended_ ||
        size_ + record.size() > std::max<std::uint64_t>(kRewriteAt, 4 * record.size())) {
        std::error_code failed;  // the write below says what is wrong
        if (sys::fs::create_directories(path_.parent_path(), failed)) {
            ::chmod(path_.parent_path().c_str(), 0700);  // made here, so ours to close off
        }
        sys::write_file_atomically(path_, record, 0600);
        appended_ = true;
        open();
        return;
    }
    try {
        sys::write_all(file_.get(), record);
        sys::sync_data(file_.get());
    } catch (...) {
        appended_ = false;  // the tail may be torn now: the next one starts a new file
        throw;
    }
    size_ += record.size();
}

void CoordinatorLog::touch() {
    if (file_.is_open()) ::futimens(file_.get(), nullptr);
}

LogWriter::LogWriter(sys::fs::path path) : keeps_(!path.empty()), log_(std::move(path)) {
    if (keeps_) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void LogWriter::submit(std::int64_t sequence, std::string snapshot) {
    if (!keeps_) {
        done_ = sequence;
        return;
    }
    job_.with([&](Job& job) {
        job.sequence = sequence;
        job.snapshot = std::move(snapshot);
        job.waiting = true;
    });
    work_.notify();
}

void LogWriter::touch() {
    if (!keeps_) return;
    job_.with([](Job& job) { job.touch = true; });
    work_.notify();
}

void LogWriter::run(const std::stop_token& stop) {
    bool failed = false;
    while (sys::wait(work_.fd(), sys::Readiness::readable, Deadline::never(), stop) ==
           sys::Waited::ready) {
        work_.drain();
        Job job = job_.with([](Job& shared) { return std::exchange(shared, Job()); });
        if (job.touch) log_.touch();
        if (!job.waiting) continue;
        try {
            log_.append(job.sequence, job.snapshot);
            failed = false;
        } catch (const Error& error) {
            // The agent's memory and the successors still have it: a full disk stops nobody.
            if (!failed) log::error("rendezvous: cannot keep the log", {{"error", error.what()}});
            failed = true;
        }
        done_ = job.sequence;
        wake_.notify();
    }
}

void LogWriter::finish() {
    if (!keeps_) return;
    thread_.request_stop();
    thread_.join();
    log_.finish();
}

MemorySlots MemorySlots::make() {
    sys::Fd first(::memfd_create("rendezvous", MFD_CLOEXEC));
    sys::Fd second(::memfd_create("rendezvous", MFD_CLOEXEC));
    if (!first.is_open() || !second.is_open()) throw_errno("make memory for the rendezvous");
    return MemorySlots(std::move(first), std::move(second));
}

void MemorySlots::store(std::int64_t sequence, std::string_view snapshot) {
    const int fd = slots_[static_cast<std::size_t>(sequence & 1)].get();
    if (fd < 0) return;
    const std::string record = encode_record(sequence, snapshot);
    std::size_t done = 0;
    while (done < record.size()) {
        const ssize_t put =
            ::pwrite(fd, record.data() + done, record.size() - done, static_cast<off_t>(done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) throw_errno("keep a snapshot in memory");
        done += static_cast<std::size_t>(put);
    }
}

std::optional<LogRecord> MemorySlots::load() const {
    std::optional<LogRecord> newest;
    for (const sys::Fd& slot : slots_) {
        if (!slot.is_open()) continue;
        std::optional<LogRecord> record = newest_record(read_slot(slot.get()));
        if (record && (!newest || record->sequence > newest->sequence)) newest = std::move(record);
    }
    return newest;
}

}  // namespace ty::agent
