// SPDX-License-Identifier: Apache-2.0
// CONNECT end to end: refusals, tunnels, and TLS seen by a strict OpenSSL client.
#include "base/error.h"
#include "base/text.h"
#include "http/http.h"
#include "http/tls_openssl.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

using namespace ty;
using namespace ty::http;

namespace {

Deadline soon() {
    return Deadline::in(seconds(20));
}

using StorePtr = std::unique_ptr<X509_STORE, OpenSslDeleter<::X509_STORE_free>>;

std::unique_ptr<Server> proxy(
    ServerOptions::Connect decision, std::shared_ptr<TlsAuthority> authority = {},
    Handler handler = [](Request&) { return Response(); }) {
    ServerOptions options;
    options.authority = std::move(authority);
    options.on_connect = [decision](const std::string&, std::uint16_t) { return decision; };
    return std::make_unique<Server>(sys::Listener::tcp("127.0.0.1", 0), std::move(handler),
                                    options);
}

std::string receive_until(sys::Socket& socket, std::string_view mark) {
    std::string text;
    std::byte byte;
    while (!text.ends_with(mark) && socket.read(std::span(&byte, 1), soon()) == 1) {
        text += static_cast<char>(byte);
    }
    return text;
}

sys::Socket connect_through(std::uint16_t port, const std::string& target,
                            std::string_view early = {}) {
    sys::Socket socket = sys::Socket::connect_tcp("127.0.0.1", port, soon());
    socket.write(as_bytes(format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n{1}", target, early)),
                 soon());
    return socket;
}

/// An OpenSSL client that trusts one CA and checks as strictly as Python 3.13 does.
class TlsClient {
public:
    TlsClient(sys::Socket socket, const std::string& ca_pem, const std::string& host)
        : socket_(std::move(socket)), context_(::SSL_CTX_new(::TLS_client_method())) {
        const BioPtr bio(::BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size())));
        const CertificatePtr ca(::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context_.get()), ca.get());
        ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
        ::X509_VERIFY_PARAM_set_flags(::SSL_CTX_get0_param(context_.get()),
                                      X509_V_FLAG_X509_STRICT | X509_V_FLAG_PARTIAL_CHAIN);
        ssl_.reset(::SSL_new(context_.get()));
        ::SSL_set1_host(ssl_.get(), host.c_str());
        ::SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
        static constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";
        ::SSL_set_alpn_protos(ssl_.get(), kProtocols, sizeof kProtocols - 1);
        in_ = ::BIO_new(::BIO_s_mem());
        out_ = ::BIO_new(::BIO_s_mem());
        BIO_set_mem_eof_return(in_, -1);
        ::SSL_set_bio(ssl_.get(), in_, out_);
        ::SSL_set_connect_state(ssl_.get());
    }
    /// Verification result, X509_V_OK when the handshake went through.
    long handshake() {
        while (true) {
            const int result = ::SSL_do_handshake(ssl_.get());
            flush();
            if (result == 1) return ::SSL_get_verify_result(ssl_.get());
            if (::SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ || !feed()) {
                return ::SSL_get_verify_result(ssl_.get());
            }
        }
    }
    std::string protocol() const {
        const unsigned char* name = nullptr;
        unsigned int size = 0;
        ::SSL_get0_alpn_selected(ssl_.get(), &name, &size);
        return std::string(reinterpret_cast<const char*>(name), size);
    }
    void send(std::string_view text) {
        std::size_t sent = 0;
        REQUIRE(::SSL_write_ex(ssl_.get(), text.data(), text.size(), &sent) == 1);
        flush();
    }
    std::string receive(std::size_t size) {
        while (held_.size() < size) {
            std::array<char, 16384> buffer;
            std::size_t got = 0;
            if (::SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &got) == 1) {
                held_.append(buffer.data(), got);
            } else if (!feed()) {
                break;
            }
        }
        const std::string result = held_.substr(0, size);
        held_.erase(0, size);
        return result;
    }
    std::string head() {
        std::string text;
        while (!text.ends_with("\r\n\r\n")) {
            const std::string byte = receive(1);
            if (byte.empty()) break;
            text += byte;
        }
        return text;
    }
    /// What waits to be sent: the first flight, for clients that do not wait for the proxy.
    std::string take_output() {
        ::SSL_do_handshake(ssl_.get());
        char* data = nullptr;
        const long size = BIO_get_mem_data(out_, &data);
        const std::string text(data, static_cast<std::size_t>(size));
        (void)BIO_reset(out_);
        return text;
    }
    void use(sys::Socket socket) { socket_ = std::move(socket); }

private:
    void flush() {
        char* data = nullptr;
        const long size = BIO_get_mem_data(out_, &data);
        if (size > 0)
            socket_.write(std::as_bytes(std::span(data, static_cast<std::size_t>(size))), soon());
        (void)BIO_reset(out_);
    }
    bool feed() {
        std::array<std::byte, 16384> buffer;
        const std::size_t got = socket_.read(buffer, soon());
        if (got > 0) ::BIO_write(in_, buffer.data(), static_cast<int>(got));
        return got > 0;
    }
    sys::Socket socket_;
    SslContextPtr context_;
    SslPtr ssl_;
    BIO* in_ = nullptr;
    BIO* out_ = nullptr;
    std::string held_;
};

Response tls_echo(Request& request) {
    Response response;
    response.body =
        format("{} {} {} {} {}", request.tls ? "tls" : "plain", request.method, request.path,
               request.headers.get("Host"), request.body->read_all(Bytes(1u << 20)));
    if (request.path == "/stream") {
        response.stream = [](BodyWriter& out) {
            for (int i = 0; i < 3; ++i) out.write(std::string(50000, static_cast<char>('a' + i)));
        };
        response.headers.add("Content-Length", "150000");
    }
    return response;
}

}  // namespace

TEST_CASE("CONNECT is refused with a sentence naming the target") {
    const auto server = proxy(ServerOptions::Connect::refuse);
    sys::Socket socket = connect_through(server->port(), "sts.example:443");
    CHECK(receive_until(socket, "\r\n\r\n").starts_with("HTTP/1.1 403"));
    CHECK(receive_until(socket, "never").find("sts.example:443") != std::string::npos);
    sys::Socket odd = connect_through(server->port(), "no-port");
    CHECK(receive_until(odd, "\r\n\r\n").starts_with("HTTP/1.1 400"));
    const auto without = proxy(ServerOptions::Connect::intercept);
    sys::Socket untrusted = connect_through(without->port(), "h:443");
    CHECK(receive_until(untrusted, "\r\n\r\n").starts_with("HTTP/1.1 403"));
}

TEST_CASE("a tunnel copies both ways, early bytes included, until both sides are done") {
    Server inner(sys::Listener::tcp("127.0.0.1", 0), tls_echo);
    const auto server = proxy(ServerOptions::Connect::tunnel);
    const std::string large(1000000, 'x');
    sys::Socket socket = connect_through(
        server->port(), format("127.0.0.1:{}", inner.port()),
        "PUT /early HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n");
    std::jthread sender([&] { socket.write(as_bytes(large), soon()); });
    CHECK(receive_until(socket, "\r\n\r\n").starts_with("HTTP/1.1 200 Connection established"));
    CHECK(receive_until(socket, "\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    CHECK(receive_until(socket, "never") == "plain PUT /early h " + large);
}

TEST_CASE("a tunnel to nowhere is a bad gateway") {
    const auto server = proxy(ServerOptions::Connect::tunnel);
    const std::uint16_t free_port = sys::Listener::tcp("127.0.0.1", 0).port();
    sys::Socket socket = connect_through(server->port(), format("127.0.0.1:{}", free_port));
    CHECK(receive_until(socket, "\r\n\r\n").starts_with("HTTP/1.1 502"));
}

TEST_CASE("an idle tunnel ends with the server") {
    Server inner(sys::Listener::tcp("127.0.0.1", 0), tls_echo);
    auto server = proxy(ServerOptions::Connect::tunnel);
    sys::Socket socket = connect_through(server->port(), format("127.0.0.1:{}", inner.port()));
    receive_until(socket, "\r\n\r\n");
    const Deadline quick = Deadline::in(seconds(2));
    server.reset();
    CHECK_FALSE(quick.passed());
    CHECK(receive_until(socket, "never").empty());
}

TEST_CASE("an intercepted host is served by the handler through TLS a strict client accepts") {
    const sys::TempDir dir;
    const auto authority = open_tls_authority(dir.path() / "tls");
    const auto server = proxy(ServerOptions::Connect::intercept, authority, tls_echo);
    sys::Socket socket = connect_through(server->port(), "STS.us-east-1.example.com:443");
    CHECK(receive_until(socket, "\r\n\r\n").starts_with("HTTP/1.1 200"));
    TlsClient client(std::move(socket), ca_certificate_pem(*authority),
                     "sts.us-east-1.example.com");
    REQUIRE(client.handshake() == X509_V_OK);
    CHECK(client.protocol() == "http/1.1");
    for (int i = 0; i < 2; ++i) {
        client.send(
            "POST /a HTTP/1.1\r\nHost: sts.us-east-1.example.com\r\nContent-Length: 2\r\n\r\nhi");
        CHECK(client.head().starts_with("HTTP/1.1 200"));
        const std::string want = "tls POST /a sts.us-east-1.example.com hi";
        CHECK(client.receive(want.size()) == want);
    }
    client.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    client.head();
    CHECK(client.receive(150000) ==
          std::string(50000, 'a') + std::string(50000, 'b') + std::string(50000, 'c'));
    // CONNECT inside is a request like any other.
    client.send("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n");
    CHECK(client.head().starts_with("HTTP/1.1 200"));
}

TEST_CASE(
    "an address and a long name get certificates, too; a client that does not wait is understood") {
    const sys::TempDir dir;
    const auto authority = open_tls_authority(dir.path());
    const auto server = proxy(ServerOptions::Connect::intercept, authority, tls_echo);
    const std::string label(50, 'a');
    const std::string long_name = label + "." + label + ".example.com";
    TlsClient client(sys::Socket(), ca_certificate_pem(*authority), long_name);
    client.use(connect_through(server->port(), long_name + ":443", client.take_output()));
    sys::Socket address = connect_through(server->port(), "127.0.0.1:443");
    receive_until(address, "\r\n\r\n");
    TlsClient by_address(std::move(address), ca_certificate_pem(*authority), "127.0.0.1");
    CHECK(by_address.handshake() == X509_V_OK);
}

TEST_CASE(
    "clients that do not trust the authority, or do not speak TLS, only end their own connection") {
    const sys::TempDir dir;
    const auto authority = open_tls_authority(dir.path() / "a");
    const auto stranger = open_tls_authority(dir.path() / "b");
    const auto server = proxy(ServerOptions::Connect::intercept, authority, tls_echo);
    sys::Socket socket = connect_through(server->port(), "h.example:443");
    receive_until(socket, "\r\n\r\n");
    TlsClient client(std::move(socket), ca_certificate_pem(*stranger), "h.example");
    CHECK(client.handshake() != X509_V_OK);
    sys::Socket garbage =
        connect_through(server->port(), "h.example:443", "GET / HTTP/1.1\r\n\r\n");
    receive_until(garbage, "never");
    Client plain(parse_url(format("http://127.0.0.1:{}", server->port())));
    CHECK(plain.send({}, soon()).status == 200);
}

TEST_CASE("the authority is kept in its folder with a private key, and damage is told") {
    const sys::TempDir dir;
    const std::string first = ca_certificate_pem(*open_tls_authority(dir.path()));
    CHECK(ca_certificate_pem(*open_tls_authority(dir.path())) == first);
    CHECK(sys::read_file(dir.path() / "ca.pem") == first);
    struct stat info = {};
    REQUIRE(::stat((dir.path() / "ca.key").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    REQUIRE(::stat((dir.path() / "ca.pem").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0644);
    // Killed between key and certificate: a new pair is made.
    sys::fs::remove(dir.path() / "ca.pem");
    const std::string second = ca_certificate_pem(*open_tls_authority(dir.path()));
    CHECK(second != first);
    sys::write_file(dir.path() / "ca.pem", first);
    try {
        open_tls_authority(dir.path());
        FAIL("accepted a foreign certificate");
    } catch (const Error& error) {
        CHECK(error.code() == Code::corrupt);
        CHECK(error.message().find("ca.key") != std::string::npos);
    }
}

TEST_CASE("certificates say what RFC 5280 wants of them") {
    const sys::TempDir dir;
    const std::string pem = ca_certificate_pem(*open_tls_authority(dir.path()));
    const BioPtr bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    const CertificatePtr ca(::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    REQUIRE(ca);
    CHECK(::X509_check_ca(ca.get()) == 1);
    CHECK(::X509_get_pathlen(ca.get()) == 0);
    CHECK(::X509_get_key_usage(ca.get()) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
    CHECK(::X509_get0_subject_key_id(ca.get()) != nullptr);
    const int at = ::X509_get_ext_by_NID(ca.get(), NID_basic_constraints, -1);
    CHECK(::X509_EXTENSION_get_critical(::X509_get_ext(ca.get(), at)) == 1);
}
