// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/frames.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace ty::agent {

namespace {

constexpr std::size_t kHeader = 4;
constexpr std::size_t kNonceLength = 32;
constexpr std::size_t kLongestName = 1024;

/// Parts are length-prefixed, so that no two lists of parts give the same text.
std::string proof(const JobSecret& secret, std::string_view side, std::string_view server_nonce,
                  std::string_view own_nonce, std::string_view node) {
    std::string text;
    for (const std::string_view part :
         {side, server_nonce, own_nonce, std::string_view(secret.run_id), node}) {
        text += format("{}:{}", part.size(), part);
    }
    return to_hex(hmac_sha256(as_bytes(secret.token), text));
}

Json object(std::string_view frame) {
    Json document = parse_json(frame);
    if (!document.is_object()) {
        throw_error(Code::invalid, "BadHandshake", "the handshake is no JSON object");
    }
    return document;
}

std::string text_of(const Json& document, const char* name, std::size_t limit) {
    const auto it = document.find(name);
    if (it == document.end() || !it->is_string()) {
        throw_error(Code::invalid, "BadHandshake", "the handshake has no \"{}\"", name);
    }
    const auto& text = it->get_ref<const std::string&>();
    if (text.empty() || text.size() > limit) {
        throw_error(Code::invalid, "BadHandshake", "\"{}\" of the handshake is empty or too long",
                    name);
    }
    return text;
}

}  // namespace

void append_frame(std::string& out, std::string_view body) {
    const auto size = static_cast<std::uint32_t>(body.size());
    for (unsigned shift = 0; shift < 32; shift += 8) {
        out += static_cast<char>(static_cast<unsigned char>(size >> shift));
    }
    out += body;
}

void FrameReader::append(std::string_view bytes) {
    if (used_ == buffer_.size()) {
        buffer_.clear();
        used_ = 0;
        if (buffer_.capacity() > kUpLimit) buffer_.shrink_to_fit();
    } else if (used_ > 4096 && used_ > buffer_.size() / 2) {
        buffer_.erase(0, used_);
        used_ = 0;
    }
    buffer_ += bytes;
}

std::optional<std::string_view> FrameReader::next() {
    const std::string_view rest = std::string_view(buffer_).substr(used_);
    if (rest.size() < kHeader) return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 0; i < kHeader; ++i) {
        size |= static_cast<std::size_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    }
    if (size > limit_) {
        throw_error(Code::invalid, "FrameTooLarge", "a frame of {} bytes; at most {} are allowed",
                    size, limit_);
    }
    if (rest.size() < kHeader + size) return std::nullopt;
    used_ += kHeader + size;
    return rest.substr(kHeader, size);
}

std::string weak_token(std::string_view run_id) {
    return sha256_hex(format("trainyard rendezvous {}", run_id));
}

std::string make_nonce(Ids& ids) {
    return ids.token(kNonceLength);
}

std::string greeting(std::string_view nonce) {
    return dump_json(Json{{"trainyard", 1}, {"nonce", nonce}});
}

Admission admit(const JobSecret& secret, std::string_view host, std::string_view nonce,
                std::string_view frame) {
    const Json document = object(frame);
    const std::string node = text_of(document, "node", kLongestName);
    const std::string run_id = text_of(document, "run_id", kLongestName);
    const std::string own_nonce = text_of(document, "nonce", kLongestName);
    const std::string given = text_of(document, "proof", kLongestName);
    // The proof comes first: only who knows the token learns which job this is. A wrong run id also
    // gives a wrong proof, so it is checked against the run id that the node claims.
    const JobSecret claimed{.run_id = run_id, .token = secret.token};
    if (!equal_in_constant_time(given, proof(claimed, "client", nonce, own_nonce, node))) {
        throw_error(Code::denied, "WrongToken", "\"{}\" does not know the job's token", node);
    }
    if (run_id != secret.run_id) {
        throw_error(Code::denied, "WrongRun", "\"{}\" wants run id \"{}\", this is \"{}\"", node,
                    run_id, secret.run_id);
    }
    const Json answer = {{"proof", proof(secret, "server", nonce, own_nonce, node)},
                         {"host", host}};
    return Admission{.node = node, .answer = dump_json(answer)};
}

std::string refusal(std::string_view why) {
    return dump_json(Json{{"refused", why}});
}

std::string Introduction::answer(std::string_view greeting, Ids& ids) {
    const Json document = object(greeting);
    const auto version = document.find("trainyard");
    if (version == document.end() || !version->is_number_integer() || *version != 1) {
        throw_error(Code::invalid, "BadHandshake",
                    "the other side is no coordinator of this version");
    }
    server_nonce_ = text_of(document, "nonce", kLongestName);
    own_nonce_ = make_nonce(ids);
    return dump_json(Json{{"node", node_},
                          {"run_id", secret_.run_id},
                          {"nonce", own_nonce_},
                          {"proof", proof(secret_, "client", server_nonce_, own_nonce_, node_)}});
}

std::string Introduction::verify(std::string_view frame) const {
    const Json document = object(frame);
    if (document.contains("refused")) {
        const std::string why = text_of(document, "refused", 64);
        if (why == "WrongRun") {
            throw_error(Code::denied, "WrongRun",
                        "the coordinator belongs to a job with another run id than \"{}\"",
                        secret_.run_id);
        }
        throw_error(Code::denied, "WrongToken",
                    "the coordinator does not accept our token; every node of a job needs the same "
                    "TRAINYARD_RDZV_TOKEN and --rdzv-id");
    }
    const std::string given = text_of(document, "proof", kLongestName);
    if (!equal_in_constant_time(given,
                                proof(secret_, "server", server_nonce_, own_nonce_, node_))) {
        throw_error(Code::denied, "Impostor",
                    "who answers at the endpoint does not know the job's token");
    }
    const auto host = document.find("host");
    return host != document.end() && host->is_string() ? host->get<std::string>() : std::string();
}

}  // namespace ty::agent
