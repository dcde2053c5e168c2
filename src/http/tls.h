// SPDX-License-Identifier: Apache-2.0
// TLS as a stream over another stream, and the private certificate authority. Private to http;
// OpenSSL's types appear in tls*.cc only.
#pragma once

#include "base/sync.h"
#include "http/http.h"
#include "http/stream.h"

#include <map>
#include <memory>
#include <string>

namespace ty::http {

// Virtual, so that a server without an authority links without OpenSSL.

/// A server-side configuration with one host's certificate. Thread-safe.
class TlsContext {
public:
    struct Impl;
    explicit TlsContext(std::unique_ptr<Impl> impl);
    virtual ~TlsContext();
    /// The handshake over `under`, which must outlive the result. `early`: bytes of the client
    /// already read from `under`. Throws unavailable ("TlsHandshake"), timed_out.
    virtual std::unique_ptr<Stream> accept(Stream& under, std::string_view early,
                                           Deadline by) const;
    const Impl& impl() const { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

class TlsAuthority {
public:
    struct Impl;
    /// Loads or creates; see open_tls_authority().
    explicit TlsAuthority(const sys::fs::path& dir);
    virtual ~TlsAuthority();
    /// A context with a certificate for `host` (a DNS name or an address); cached.
    virtual std::shared_ptr<TlsContext> context_for(const std::string& host);
    const std::string& ca_pem() const;

private:
    std::unique_ptr<Impl> impl_;
};

/// Server side of a TLS connection. `under` must outlive it.
class TlsStream final : public Stream {
public:
    struct Impl;
    /// `early`: bytes of the client already read from `under`.
    TlsStream(Stream& under, const TlsContext& context, std::string_view early);
    ~TlsStream() override;
    /// The handshake. Throws unavailable ("TlsHandshake"), timed_out.
    void accept(Deadline by);
    std::size_t read(std::span<std::byte> into, Deadline by) override;
    void write(std::span<const std::byte> first, std::span<const std::byte> second,
               Deadline by) override;
    void send_file(std::span<const std::byte> head, int file, std::uint64_t offset,
                   std::uint64_t length, milliseconds stall) override;
    void finish() override;

private:
    void flush(Deadline by);
    bool feed(Deadline by);
    void write_part(std::span<const std::byte> data, Deadline by);

    Stream& under_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::http
