// SPDX-License-Identifier: Apache-2.0
// The private certificate authority: one CA on disk, one leaf certificate per host name in memory.
//
// Certificates keep to RFC 5280 to the letter (key identifiers, critical constraints): Python from
// 3.13 on verifies with X509_V_FLAG_X509_STRICT.
#include "base/log.h"
#include "base/text.h"
#include "http/tls_openssl.h"

#include <cstring>

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

namespace ty::http {

void throw_tls(Code code, const std::string& what) {
    const unsigned long number = ::ERR_get_error();
    ::ERR_clear_error();
    const char* reason = number != 0 ? ::ERR_reason_error_string(number) : nullptr;
    throw_error(code, "Tls", "{}: {}", what,
                reason != nullptr ? reason : "the TLS library gave no reason");
}

namespace {

constexpr long kDay = 24L * 3600;
constexpr long kAuthorityDays = 3650;
constexpr long kLeafDays = 365;
/// Clients in virtual machines and containers may have a clock that is behind ours.
constexpr long kBackdate = kDay;
/// Leaf certificates are made anew long before they end.
constexpr std::chrono::hours kLeafRenewal{24 * 90};
constexpr std::size_t kCachedHosts = 256;

void check(bool ok, const char* what) {
    if (!ok) throw_tls(Code::internal, what);
}

KeyPtr make_key() {
    KeyPtr key(EVP_EC_gen("P-256"));
    check(key != nullptr, "create a P-256 key");
    return key;
}

void set_serial(X509* certificate) {
    // 127 random bits: positive, unique, well under the 20 octets allowed.
    unsigned char bytes[16];
    check(::RAND_bytes(bytes, sizeof bytes) == 1, "random serial number");
    bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
    BIGNUM* number = ::BN_bin2bn(bytes, sizeof bytes, nullptr);
    const bool ok = number != nullptr &&
                    ::BN_to_ASN1_INTEGER(number, ::X509_get_serialNumber(certificate)) != nullptr;
    ::BN_free(number);
    check(ok, "set the serial number");
}

void add_name(X509_NAME* name, const char* field, const std::string& value) {
    check(::X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(value.c_str()), -1,
                                       -1, 0) == 1,
          "set a certificate name");
}

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    ::X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = ::X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
    const bool ok = extension != nullptr && ::X509_add_ext(certificate, extension, -1) == 1;
    ::X509_EXTENSION_free(extension);
    check(ok, "add a certificate extension");
}

CertificatePtr blank(EVP_PKEY* key, long days) {
    CertificatePtr certificate(::X509_new());
    check(certificate != nullptr, "create a certificate");
    check(::X509_set_version(certificate.get(), X509_VERSION_3) == 1, "set the version");
    set_serial(certificate.get());
    check(::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -kBackdate) != nullptr &&
              ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), days * kDay) != nullptr,
          "set the validity");
    check(::X509_set_pubkey(certificate.get(), key) == 1, "set the public key");
    return certificate;
}

CertificatePtr make_authority(EVP_PKEY* key) {
    CertificatePtr certificate = blank(key, kAuthorityDays);
    X509* raw = certificate.get();
    add_name(::X509_get_subject_name(raw), "O", "Trainyard");
    add_name(::X509_get_subject_name(raw), "CN", "Trainyard local authority");
    check(::X509_set_issuer_name(raw, ::X509_get_subject_name(raw)) == 1, "set the issuer");
    add_extension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(raw, raw, NID_subject_key_identifier, "hash");
    add_extension(raw, raw, NID_authority_key_identifier, "keyid:always");
    check(::X509_sign(raw, key, ::EVP_sha256()) > 0, "sign the authority's certificate");
    return certificate;
}

bool is_address(const std::string& host) {
    unsigned char bytes[16];
    return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

CertificatePtr make_leaf(EVP_PKEY* key, X509* authority, EVP_PKEY* authority_key,
                         const std::string& host) {
    CertificatePtr certificate = blank(key, kLeafDays);
    X509* raw = certificate.get();
    // A common name holds 64 characters at most; the alternative name is what counts.
    add_name(::X509_get_subject_name(raw), "CN",
             host.size() <= 64 ? host : std::string("Trainyard"));
    check(::X509_set_issuer_name(raw, ::X509_get_subject_name(authority)) == 1, "set the issuer");
    add_extension(raw, authority, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(raw, authority, NID_key_usage, "critical,digitalSignature");
    add_extension(raw, authority, NID_ext_key_usage, "serverAuth");
    add_extension(raw, authority, NID_subject_key_identifier, "hash");
    add_extension(raw, authority, NID_authority_key_identifier, "keyid:always");
    // `host` came through parse_host_port(): no comma or other character this syntax reads.
    add_extension(raw, authority, NID_subject_alt_name, (is_address(host) ? "IP:" : "DNS:") + host);
    check(::X509_sign(raw, authority_key, ::EVP_sha256()) > 0, "sign a certificate");
    return certificate;
}

std::string to_text(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<std::size_t>(size));
}

std::string to_pem(X509* certificate) {
    const BioPtr bio(::BIO_new(::BIO_s_mem()));
    check(bio && ::PEM_write_bio_X509(bio.get(), certificate) == 1, "write a certificate");
    return to_text(bio.get());
}

std::string to_pem(EVP_PKEY* key) {
    const BioPtr bio(::BIO_new(::BIO_s_mem()));
    check(bio && ::PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr,
                                            nullptr) == 1,
          "write a private key");
    return to_text(bio.get());
}

BioPtr reader(const std::string& text) {
    BioPtr bio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    check(bio != nullptr, "read PEM text");
    return bio;
}

/// Only HTTP/1.1 is spoken; a client that offers protocols gets it or no answer.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
    static constexpr std::string_view kWanted = "http/1.1";
    for (unsigned int at = 0; at < offered_size;) {
        const unsigned int size = offered[at];
        if (at + 1 + size > offered_size) break;
        if (size == kWanted.size() && std::memcmp(offered + at + 1, kWanted.data(), size) == 0) {
            *out = offered + at + 1;
            *out_size = static_cast<unsigned char>(size);
            return SSL_TLSEXT_ERR_OK;
        }
        at += 1 + size;
    }
    return SSL_TLSEXT_ERR_NOACK;
}

SslContextPtr make_context(X509* certificate, EVP_PKEY* key) {
    SslContextPtr context(::SSL_CTX_new(::TLS_server_method()));
    check(context != nullptr, "create a TLS context");
    check(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1, "set the TLS version");
    check(::SSL_CTX_use_certificate(context.get(), certificate) == 1 &&
              ::SSL_CTX_use_PrivateKey(context.get(), key) == 1 &&
              ::SSL_CTX_check_private_key(context.get()) == 1,
          "set a certificate");
    ::SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
    // A client that closes without a farewell ended its requests, nothing more.
    ::SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    ::SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
    return context;
}

}  // namespace

struct TlsAuthority::Impl {
    using Contexts = std::map<std::string, std::shared_ptr<TlsContext>>;

    // Immutable after construction.
    KeyPtr key;
    CertificatePtr certificate;
    std::string pem;
    KeyPtr leaf_key;
    // Own synchronisation.
    Sync<Contexts> contexts;

    void load(const sys::fs::path& certificate_path, const sys::fs::path& key_path) {
        const std::string certificate_text = sys::read_file(certificate_path, Bytes(1u << 20));
        const std::string key_text = sys::read_file(key_path, Bytes(1u << 20));
        certificate.reset(
            ::PEM_read_bio_X509(reader(certificate_text).get(), nullptr, nullptr, nullptr));
        // The empty password keeps OpenSSL from asking a terminal for one.
        char no_password[1] = {};
        key.reset(::PEM_read_bio_PrivateKey(reader(key_text).get(), nullptr, nullptr, no_password));
        if (!certificate || !key || ::X509_check_private_key(certificate.get(), key.get()) != 1) {
            ::ERR_clear_error();
            throw_error(Code::corrupt, "TlsAuthority",
                        "{} and {} are not a certificate and its key; remove both to make new ones",
                        certificate_path.string(), key_path.string());
        }
    }

    void create(const sys::fs::path& certificate_path, const sys::fs::path& key_path) {
        key = make_key();
        certificate = make_authority(key.get());
        // Key first: a certificate that is there has its key beside it, whenever we are killed.
        sys::write_file_atomically(key_path, to_pem(key.get()), 0600);
        sys::write_file_atomically(certificate_path, to_pem(certificate.get()), 0644);
        log::info("created a certificate authority", {{"file", certificate_path.string()}});
    }

    bool ends_soon() const {
        int days = 0;
        int rest = 0;
        return ::ASN1_TIME_diff(&days, &rest, nullptr, ::X509_get0_notAfter(certificate.get())) !=
                   1 ||
               days < kLeafDays;
    }
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

TlsAuthority::TlsAuthority(const sys::fs::path& dir) : impl_(std::make_unique<Impl>()) {
    std::error_code failed;
    sys::fs::create_directories(dir, failed);
    if (failed) throw errno_error(failed.value(), format("create folder {}", dir.string()));
    const sys::fs::path certificate_path = dir / "ca.pem";
    const sys::fs::path key_path = dir / "ca.key";
    if (sys::fs::exists(certificate_path, failed)) {
        impl_->load(certificate_path, key_path);
        // Leaf certificates must not outlive their authority.
        if (impl_->ends_soon()) impl_->create(certificate_path, key_path);
    } else {
        impl_->create(certificate_path, key_path);
    }
    impl_->pem = to_pem(impl_->certificate.get());
    impl_->leaf_key = make_key();
}

TlsAuthority::~TlsAuthority() = default;

const std::string& TlsAuthority::ca_pem() const {
    return impl_->pem;
}

std::shared_ptr<TlsContext> TlsAuthority::context_for(const std::string& host) {
    const std::string name = to_lower(host);
    const auto known = impl_->contexts.with([&](const auto& all) {
        const auto it = all.find(name);
        return it == all.end() || it->second->impl().renew.passed() ? nullptr : it->second;
    });
    if (known) return known;
    auto made = std::make_unique<TlsContext::Impl>();
    const CertificatePtr leaf =
        make_leaf(impl_->leaf_key.get(), impl_->certificate.get(), impl_->key.get(), name);
    made->context = make_context(leaf.get(), impl_->leaf_key.get());
    made->renew = Deadline::in(kLeafRenewal);
    auto context = std::make_shared<TlsContext>(std::move(made));
    impl_->contexts.with([&](Impl::Contexts& all) {
        if (all.size() >= kCachedHosts) all.clear();
        all.insert_or_assign(name, context);
    });
    return context;
}

std::shared_ptr<TlsAuthority> open_tls_authority(const sys::fs::path& dir) {
    return std::make_shared<TlsAuthority>(dir);
}

std::string ca_certificate_pem(const TlsAuthority& authority) {
    return authority.ca_pem();
}

}  // namespace ty::http
