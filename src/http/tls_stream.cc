// SPDX-License-Identifier: Apache-2.0
// OpenSSL over memory: it never sees the socket, so deadlines and early bytes are ours to handle.
#include "base/error.h"
#include "http/tls.h"
#include "http/tls_openssl.h"

#include <algorithm>
#include <array>

#include <unistd.h>

namespace ty::http {

struct TlsStream::Impl {
    SslPtr ssl;
    BIO* in = nullptr;   ///< owned by ssl
    BIO* out = nullptr;  ///< owned by ssl
};

TlsStream::TlsStream(Stream& under, const TlsContext& context, std::string_view early)
    : under_(under), impl_(std::make_unique<Impl>()) {
    impl_->ssl.reset(::SSL_new(context.impl().context.get()));
    impl_->in = ::BIO_new(::BIO_s_mem());
    impl_->out = ::BIO_new(::BIO_s_mem());
    if (!impl_->ssl || impl_->in == nullptr || impl_->out == nullptr)
        throw_tls(Code::exhausted, "start TLS");
    BIO_set_mem_eof_return(impl_->in, -1);
    ::SSL_set_bio(impl_->ssl.get(), impl_->in, impl_->out);
    ::SSL_set_accept_state(impl_->ssl.get());
    if (!early.empty()) ::BIO_write(impl_->in, early.data(), static_cast<int>(early.size()));
}

TlsStream::~TlsStream() = default;

std::unique_ptr<Stream> TlsContext::accept(Stream& under, std::string_view early,
                                           Deadline by) const {
    auto stream = std::make_unique<TlsStream>(under, *this, early);
    stream->accept(by);
    return stream;
}

void TlsStream::flush(Deadline by) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(impl_->out, &data);
    if (size <= 0) return;
    const auto count = static_cast<std::size_t>(size);
    under_.write(std::as_bytes(std::span(data, count)), {}, by);
    (void)BIO_reset(impl_->out);
}

bool TlsStream::feed(Deadline by) {
    std::array<std::byte, 16384 + 1024> buffer;
    const std::size_t got = under_.read(buffer, by);
    if (got > 0) ::BIO_write(impl_->in, buffer.data(), static_cast<int>(got));
    return got > 0;
}

void TlsStream::accept(Deadline by) {
    while (true) {
        ::ERR_clear_error();
        const int result = ::SSL_do_handshake(impl_->ssl.get());
        const int why = ::SSL_get_error(impl_->ssl.get(), result);
        flush(by);
        if (result == 1) return;
        if (why != SSL_ERROR_WANT_READ) throw_tls(Code::unavailable, "TLS handshake");
        if (!feed(by))
            throw_error(Code::unavailable, "TlsHandshake",
                        "the peer went away in its TLS handshake");
    }
}

std::size_t TlsStream::read(std::span<std::byte> into, Deadline by) {
    while (true) {
        ::ERR_clear_error();
        std::size_t got = 0;
        const int result = ::SSL_read_ex(impl_->ssl.get(), into.data(), into.size(), &got);
        if (result == 1) return got;
        const int why = ::SSL_get_error(impl_->ssl.get(), result);
        flush(by);  // alerts, key updates
        if (why == SSL_ERROR_ZERO_RETURN) return 0;
        if (why != SSL_ERROR_WANT_READ) throw_tls(Code::unavailable, "receive through TLS");
        if (!feed(by)) return 0;
    }
}

void TlsStream::write_part(std::span<const std::byte> data, Deadline by) {
    while (!data.empty()) {
        const auto piece = data.first(std::min<std::size_t>(data.size(), 64u << 10));
        ::ERR_clear_error();
        std::size_t sent = 0;
        if (::SSL_write_ex(impl_->ssl.get(), piece.data(), piece.size(), &sent) != 1) {
            throw_tls(Code::unavailable, "send through TLS");
        }
        flush(by);
        data = data.subspan(sent);
    }
}

void TlsStream::write(std::span<const std::byte> first, std::span<const std::byte> second,
                      Deadline by) {
    write_part(first, by);
    write_part(second, by);
}

void TlsStream::send_file(std::span<const std::byte> head, int file, std::uint64_t offset,
                          std::uint64_t length, milliseconds stall) {
    write_part(head, Deadline::in(stall));
    std::array<std::byte, 64u << 10> buffer;
    while (length > 0) {
        const std::size_t want =
            static_cast<std::size_t>(std::min<std::uint64_t>(length, buffer.size()));
        const ssize_t got = ::pread(file, buffer.data(), want, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno("read a file to send");
        if (got == 0)
            throw_error(Code::corrupt, "", "file ended {} bytes before the announced length",
                        length);
        const auto count = static_cast<std::size_t>(got);
        write_part(std::span(buffer).first(count), Deadline::in(stall));
        offset += count;
        length -= count;
    }
}

void TlsStream::finish() {
    ::ERR_clear_error();
    ::SSL_shutdown(impl_->ssl.get());
    try {
        flush(Deadline::in(seconds(1)));
    } catch (const Error&) {
        // A peer that is gone needs no farewell.
    }
    under_.finish();
}

}  // namespace ty::http
