// SPDX-License-Identifier: Apache-2.0
#include "common/training/state_copy.h"

#include "common/base/error.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace alg {
namespace {

// Small enough that the last pieces end together on all threads, large enough not to matter.
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kAlignment = 64;

/// A copy that goes around the caches: nobody reads it soon, and the forward pass that runs
/// meanwhile keeps what it has there. `to` is aligned to 64 bytes.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __SSE2__
    const std::size_t lines = bytes / kAlignment;
    for (std::size_t line = 0; line < lines; ++line) {
        const auto* source = reinterpret_cast<const __m128i*>(from);
        auto* target = reinterpret_cast<__m128i*>(to);
        _mm_prefetch(reinterpret_cast<const char*>(from) + 16 * kAlignment, _MM_HINT_NTA);
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1),
                      c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
        from += kAlignment;
        to += kAlignment;
    }
    bytes -= lines * kAlignment;
    _mm_sfence();  // before the piece counts as copied
#endif
    std::memcpy(to, from, bytes);
}

bool is_plain(const at::Tensor& tensor) {
    return tensor.is_cpu() && tensor.is_contiguous();
}

}  // namespace

StateCopy::StateCopy(NamedTensors live) : live_(std::move(live)) {
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const at::Tensor& tensor = live_[i].second;
        const std::size_t size = tensor.nbytes();
        places_.push_back(bytes_);
        bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
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

void StateCopy::prepare() {
    std::call_once(prepared_, [this] { allocate(); });
}

void StateCopy::allocate() {
    if (bytes_ > 0) {
        void* at =
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) fail("no memory for a copy of the training state ({} bytes)", bytes_);
        memory_ = static_cast<std::byte*>(at);
        // Huge pages: a page fault for every 2 MiB instead of 4 KiB.
        ::madvise(at, bytes_, MADV_HUGEPAGE);
        constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
        if (::madvise(at, bytes_, kPopulateWrite) != 0) {
            for (std::size_t byte = 0; byte < bytes_; byte += 4096) memory_[byte] = std::byte{0};
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
