// SPDX-License-Identifier: Apache-2.0
#include "agent/shipping/log_queue.h"

#include "base/error.h"
#include "base/log.h"

#include <charconv>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

namespace {

void append_number(std::string& out, long long value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    out.append(digits, end.ptr);
}

}  // namespace

void LogQueue::add(Instant time, std::string_view line) {
    if (batches_.empty() || batches_.back().is_spooled() || batches_.back().size >= limits_.batch) {
        if (memory_ > limits_.memory && !batches_.empty() && !batches_.back().is_spooled())
            spool_back();
        Batch batch;
        batch.first = next_index_;
        batches_.push_back(std::move(batch));
    }
    Batch& batch = batches_.back();
    const std::size_t before = batch.data.size();
    append_number(batch.data, to_epoch_millis(time));
    batch.data += ' ';
    append_number(batch.data, static_cast<long long>(line.size()));
    batch.data += '\n';
    batch.data.append(line);
    batch.data += '\n';
    batch.size = batch.data.size();
    ++batch.lines;
    ++next_index_;
    memory_ += batch.size - before;
}

/// The newest batch is full and memory is, too: move it to the file.
void LogQueue::spool_back() {
    Batch& batch = batches_.back();
    try {
        if (!spool_.is_open()) {
            spool_ =
                sys::Fd(::open(spool_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
            if (!spool_.is_open()) throw_errno("create log spool {}", spool_path_.string());
        }
        std::size_t done = 0;
        while (done < batch.size) {
            const ssize_t wrote =
                ::pwrite(spool_.get(), batch.data.data() + done, batch.size - done,
                         spool_end_ + static_cast<long long>(done));
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote <= 0) throw_errno("write log spool {}", spool_path_.string());
            done += static_cast<std::size_t>(wrote);
        }
    } catch (const Error& error) {
        if (!spool_broken_)
            log::warning("log spool cannot be written; lines stay in memory",
                         {{"error", error.what()}});
        spool_broken_ = true;
        return;
    }
    spool_broken_ = false;
    batch.spool_at = spool_end_;
    spool_end_ += static_cast<long long>(batch.size);
    ++spooled_;
    memory_ -= batch.size;
    std::string().swap(batch.data);
}

LogQueue::Batch LogQueue::pop() {
    TY_ASSERT(!batches_.empty());
    Batch& front = batches_.front();
    if (front.is_spooled()) {
        std::string data(front.size, '\0');
        std::size_t done = 0;
        while (done < data.size()) {
            const ssize_t got = ::pread(spool_.get(), data.data() + done, data.size() - done,
                                        front.spool_at + static_cast<long long>(done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw_errno("read log spool {}", spool_path_.string());
            if (got == 0)
                throw_error(Code::corrupt, "LogSpool", "log spool {} ends early",
                            spool_path_.string());
            done += static_cast<std::size_t>(got);
        }
        front.data = std::move(data);
    } else {
        memory_ -= front.size;
    }
    Batch batch = std::move(front);
    batches_.pop_front();
    return batch;
}

void LogQueue::release(const Batch& batch) {
    if (!batch.is_spooled()) return;
    if (--spooled_ == 0) {
        if (::ftruncate(spool_.get(), 0) == 0) spool_end_ = 0;
        return;
    }
    // Best effort: without hole punching the file only shrinks when it is drained.
    (void)::fallocate(spool_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, batch.spool_at,
                      static_cast<off_t>(batch.size));
}

}  // namespace ty::agent
