// SPDX-License-Identifier: Apache-2.0
#include "common/training/state_copy.h"

#include "common/base/error.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace alg {
namespace {

// Small enough that the last pieces end together on all threads, large enough not to matter.
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kLine = 64;

// A copy that goes around the caches: nobody reads it soon, and the forward pass that runs
// meanwhile keeps what it has there. `to` is aligned to 64 bytes. Source lines are asked for well
// ahead, because one thread's copy is bound by the latency of memory.
constexpr std::size_t kAhead = 4096;

#ifdef __x86_64__
__attribute__((target("avx512f"))) std::size_t stream_lines_512(std::byte* to,
                                                                const std::byte* from,
                                                                std::size_t lines) {
    for (std::size_t line = 0; line < lines; ++line, to += kLine, from += kLine) {
        _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_NTA);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
    }
    _mm_sfence();  // before the piece counts as copied
    return lines * kLine;
}

std::size_t stream_lines(std::byte* to, const std::byte* from, std::size_t lines) {
    for (std::size_t line = 0; line < lines; ++line, to += kLine, from += kLine) {
        _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_NTA);
        const auto* source = reinterpret_cast<const __m128i*>(from);
        auto* target = reinterpret_cast<__m128i*>(to);
        for (int quarter = 0; quarter < 4; ++quarter)
            _mm_stream_si128(target + quarter, _mm_loadu_si128(source + quarter));
    }
    _mm_sfence();
    return lines * kLine;
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
    static const bool wide = __builtin_cpu_supports("avx512f") != 0;
    const std::size_t lines = bytes / kLine;
    const std::size_t done =
        wide ? stream_lines_512(to, from, lines) : stream_lines(to, from, lines);
    std::memcpy(to + done, from + done, bytes - done);
}
#else
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}
#endif

bool is_plain(const at::Tensor& tensor) {
    return tensor.is_cpu() && tensor.is_contiguous();
}

}  // namespace

StateCopy::StateCopy(NamedTensors live) : live_(std::move(live)) {
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const at::Tensor& tensor = live_[i].second;
        const std::size_t size = tensor.nbytes();
        places_.push_back(bytes_);
        bytes_ += (size + kLine - 1) / kLine * kLine;
        if (!is_plain(tensor)) {
            pieces_.push_back({i, 0, 0});
            continue;
        }
        for (std::size_t at = 0; at < size; at += kPiece)
            pieces_.push_back({i, at, std::min(kPiece, size - at)});
    }
    next_ = copied_ = pieces_.size();
}

StateCopy::~StateCopy() {
    copies_.clear();
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

void StateCopy::prepare(const std::stop_token& stop) {
    std::call_once(prepared_, [this, &stop] { allocate(stop); });
}

void StateCopy::allocate(const std::stop_token& stop) {
    if (bytes_ > 0 && memory_ == nullptr) {
        void* at =
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) fail("no memory for a copy of the training state ({} bytes)", bytes_);
        memory_ = static_cast<std::byte*>(at);
        // Huge pages: a page fault for every 2 MiB instead of 4 KiB. Pages are touched rather than
        // populated by one call, which would keep the training thread from mapping memory.
        ::madvise(at, bytes_, MADV_HUGEPAGE);
        for (std::size_t byte = 0; byte < bytes_; byte += 4096) {
            memory_[byte] = std::byte{0};
            if (byte % kPiece == 0 && stop.stop_requested()) fail("stopped before the first copy");
        }
    }
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const auto& [name, tensor] = live_[i];
        copies_.emplace_back(name, at::from_blob(memory_ + places_[i], tensor.sizes(),
                                                 at::TensorOptions(tensor.scalar_type())));
    }
}

void StateCopy::start() {
    problem_.clear();
    copied_ = 0;
    next_ = 0;  // releases what was written before to those who take pieces
}

void StateCopy::work() noexcept {
    for (std::size_t number = next_++; number < pieces_.size(); number = next_++) {
        try {
            prepare();
            const Piece& piece = pieces_[number];
            const at::Tensor& from = live_[piece.tensor].second;
            if (piece.bytes > 0) {
                const auto* bytes = static_cast<const std::byte*>(from.const_data_ptr());
                copy_past_caches(memory_ + places_[piece.tensor] + piece.offset,
                                 bytes + piece.offset, piece.bytes);
            } else {
                const c10::NoGradGuard no_grad;
                at::Tensor to = copies_[piece.tensor].second;
                to.copy_(from);
            }
        } catch (const std::exception& error) {
            const std::lock_guard lock(mutex_);
            problem_ = error.what();
        }
        if (++copied_ == pieces_.size()) copied_.notify_all();
    }
}

void StateCopy::wait() noexcept {
    work();
    for (std::size_t copied = copied_; copied < pieces_.size(); copied = copied_)
        copied_.wait(copied);
}

const NamedTensors& StateCopy::copies() const {
    if (!problem_.empty()) throw Failure(problem_);
    return copies_;
}

}  // namespace alg
