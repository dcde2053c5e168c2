// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 over blocking sockets: a thread-per-connection server with streaming bodies, a
// keep-alive client, TLS on the server side for hosts we stand in for. parse.cc and chunked.cc read
// foreign bytes.
#pragma once

#include "base/bytes.h"
#include "base/time.h"
#include "sys/sys.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ty::http {

/// Header fields in order of arrival; names compare without case.
class Headers {
public:
    void add(std::string name, std::string value) {
        fields_.emplace_back(std::move(name), std::move(value));
    }
    /// Replace all fields of that name.
    void set(std::string_view name, std::string value);
    void remove(std::string_view name);
    /// First value; nullopt when absent.
    std::optional<std::string_view> find(std::string_view name) const;
    std::string_view get(std::string_view name, std::string_view otherwise = {}) const {
        return find(name).value_or(otherwise);
    }
    bool contains(std::string_view name) const { return find(name).has_value(); }
    auto begin() const { return fields_.begin(); }
    auto end() const { return fields_.end(); }

private:
    std::vector<std::pair<std::string, std::string>> fields_;
};

/// Body of a request (server) or response (client), de-chunked. Single reader.
class BodyReader {
public:
    virtual ~BodyReader() = default;
    /// Fills at most `into`; 0 at the end. Throws invalid (bad chunking), exhausted
    /// ("EntityTooLarge", over the limit), unavailable (peer vanished before Content-Length),
    /// timed_out.
    virtual std::size_t read(std::span<std::byte> into) = 0;
    /// Content-Length, when the peer gave one.
    virtual std::optional<std::uint64_t> length() const = 0;
    /// Everything; throws exhausted ("EntityTooLarge") beyond `limit`.
    std::string read_all(Bytes limit);
};

struct Request {
    std::string method;  ///< "GET"
    std::string path;    ///< as sent, still percent-encoded, without the query
    std::string query;   ///< as sent, without '?'
    Headers headers;
    BodyReader* body =
        nullptr;           ///< never null in a handler; "100 Continue" is sent on its first read
    bool tls = false;      ///< arrived through an intercepted TLS connection
    std::string peer;      ///< "127.0.0.1:51234"
    std::stop_token stop;  ///< the server is shutting down, or the client hung up while streaming
};

/// Where a streaming response goes; chunked unless a Content-Length header was set.
class BodyWriter {
public:
    virtual ~BodyWriter() = default;
    virtual void write(std::span<const std::byte> data) = 0;
    void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
};

/// A range of a file as a body: sent with sendfile(2) on plain connections.
struct FileBody {
    sys::Fd file;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

struct Response {
    int status = 200;
    Headers headers;
    std::string body;  ///< used when neither of the next two is set
    std::optional<FileBody> file;
    std::function<void(BodyWriter&)> stream;
    /// HEAD and 304 answers: send these headers (Content-Length included) and no body.
    bool head_only = false;
};

/// Called on a connection's thread. Must not throw: whatever leaves it is a logged 500.
using Handler = std::function<Response(Request&)>;

struct Limits {
    Bytes head = Bytes(64u << 10);  ///< request line and headers; beyond: 431
    std::size_t header_count = 200;
    std::size_t connections = 1024;  ///< beyond: 503 and close
    seconds idle{75};                ///< keep-alive
    seconds header_timeout{20};      ///< slow heads: 408 and close
    seconds body_stall{60};          ///< no byte of a body for so long: close
};

/// Presents certificates for the host names it is asked for. Implemented with OpenSSL in tls.cc.
class TlsAuthority;

struct ServerOptions {
    Limits limits;
    /// When set, CONNECT requests for hosts it accepts are answered by TLS termination here and
    /// served by the same handler with Request::tls = true.
    std::shared_ptr<TlsAuthority> authority;
    /// What to do with a CONNECT to host:port. Default: refuse everything (405).
    enum class Connect { refuse, intercept, tunnel };
    std::function<Connect(const std::string& host, std::uint16_t port)> on_connect;
};

/// Accepts on its own thread until destroyed; destruction closes idle connections and waits for
/// running handlers (they see Request::stop).
class Server {
public:
    Server(sys::Listener listener, Handler handler, ServerOptions options = {});
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    std::uint16_t port() const;
    std::size_t connections() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Create (once) or load a private certificate authority kept in `dir` (ca.pem, ca.key 0600).
/// Thread-safe; leaf certificates are cached per host name.
std::shared_ptr<TlsAuthority> open_tls_authority(const sys::fs::path& dir);
/// The authority's certificate, which clients must trust; the same text as in `dir`/ca.pem.
std::string ca_certificate_pem(const TlsAuthority& authority);

struct Url {
    std::string scheme = "http";
    std::string host;
    std::uint16_t port = 80;
    std::string path;  ///< prefix, without a trailing slash
};
/// Throws invalid naming the text.
Url parse_url(std::string_view text);

struct ClientRequest {
    std::string method = "GET";
    std::string target = "/";  ///< path and query, percent-encoded
    Headers headers;           ///< Host and Content-Length are added
    std::string_view body;     ///< must live until send() returns
    /// Streaming upload instead of body: fills the buffer, 0 at the end; needs content_length.
    std::function<std::size_t(std::span<std::byte>)> body_source;
    std::optional<std::uint64_t> content_length;
};

struct ClientResponse {
    int status = 0;
    Headers headers;
    std::string body;  ///< when no sink was given
};

/// One keep-alive connection to one http:// server; reconnects when the server closed it in
/// between. Not thread-safe: one per thread.
class Client {
public:
    explicit Client(Url url);
    ~Client();
    Client(Client&&) noexcept;
    /// Body bytes of a 2xx answer go to `sink` when given. Throws unavailable, timed_out,
    /// cancelled, invalid. A request that may have reached the server is not repeated, except
    /// GET/HEAD/PUT/DELETE once on a stale connection.
    ClientResponse send(const ClientRequest& request, Deadline by, const std::stop_token& stop = {},
                        const std::function<void(std::span<const std::byte>)>& sink = {});

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::http
