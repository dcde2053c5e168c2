// SPDX-License-Identifier: Apache-2.0
// OpenSSL's objects as owned values. Private to http; included by tls*.cc only.
#pragma once

#include "base/error.h"
#include "http/tls.h"

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace ty::http {

template <auto Free>
struct OpenSslDeleter {
    template <typename T>
    void operator()(T* object) const {
        Free(object);
    }
};
using SslPtr = std::unique_ptr<SSL, OpenSslDeleter<::SSL_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpenSslDeleter<::SSL_CTX_free>>;
using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<::BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslDeleter<::EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslDeleter<::X509_free>>;

struct TlsContext::Impl {
    SslContextPtr context;
    Deadline renew = Deadline::never();
};

/// Throw with what OpenSSL's error queue says first, and empty the queue.
[[noreturn]] void throw_tls(Code code, const std::string& what);

}  // namespace ty::http
