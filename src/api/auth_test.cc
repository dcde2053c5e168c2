// SPDX-License-Identifier: Apache-2.0
#include "api/auth.h"
#include "api/temporary_keys.h"
#include "base/hash.h"
#include "tests/support/fake_clock.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::api;

namespace {

const aws::Credentials kRoot{"AKIAROOT", "root-secret", ""};
const aws::Credentials kAttempt{"AKIAATTEMPT", "attempt-secret", "attempt-token"};

std::optional<aws::Credentials> find_attempt(const std::string& key) {
    return key == kAttempt.access_key ? std::optional(kAttempt) : std::nullopt;
}

http::Request signed_by(const aws::Credentials& keys, Instant now) {
    http::ClientRequest client;
    client.method = "POST";
    aws::sign(client, "h", keys, "us-east-1", "sagemaker", now, sha256_hex("{}"));
    http::Request request;
    request.method = client.method;
    request.path = "/";
    for (const auto& [name, value] : client.headers) request.headers.add(name, value);
    request.headers.set("Host", "h");
    return request;
}

struct Fixture {
    test::FakeClock clock;
    SeededIds ids{7};
    Authenticator authenticator{kRoot, find_attempt, clock};
    std::string refusal(const aws::Credentials& keys) {
        try {
            authenticator.check(signed_by(keys, clock.now()), sha256_hex("{}"));
        } catch (const Error& error) {
            return error.reason();
        }
        return "";
    }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "the owner, running attempts and holders of temporary keys come in") {
    CHECK(refusal(kRoot) == "");
    CHECK(refusal(kAttempt) == "");
    CHECK(refusal({"AKIAATTEMPT", "attempt-secret", ""}) == "InvalidToken");
    CHECK(refusal({"AKIAROOT", "guess", ""}) == "SignatureDoesNotMatch");
    CHECK(refusal({"AKIANOBODY", "guess", ""}) == "InvalidAccessKeyId");
}

TEST_CASE_FIXTURE(Fixture, "temporary keys work until they expire, also after a restart") {
    const aws::Credentials keys =
        issue_temporary_keys(kRoot, ids, clock.now() + std::chrono::minutes(15));
    CHECK(keys.access_key.size() == 20);
    CHECK(keys.access_key.starts_with("ASIA"));
    CHECK(refusal(keys) == "");
    Authenticator restarted(kRoot, find_attempt, clock);
    CHECK_NOTHROW(restarted.check(signed_by(keys, clock.now()), sha256_hex("{}")));
    CHECK(refusal({keys.access_key, keys.secret_key, ""}) == "InvalidToken");
    CHECK(refusal({keys.access_key, "guess", keys.session_token}) == "SignatureDoesNotMatch");
    clock.advance(std::chrono::minutes(15) - milliseconds(1));
    CHECK(refusal(keys) == "");
    clock.advance(milliseconds(1));
    CHECK(refusal(keys) == "ExpiredToken");
}

TEST_CASE_FIXTURE(Fixture, "an expiry cannot be written into a key by its holder") {
    const aws::Credentials keys = issue_temporary_keys(kRoot, ids, clock.now() + seconds(900));
    aws::Credentials forged = keys;
    forged.access_key[5] =
        forged.access_key[5] == 'Z' ? 'Y' : 'Z';  // some later second, or an earlier one
    CHECK(refusal(forged) != "");
    CHECK_FALSE(find_temporary_keys(kRoot, "ASIA", clock.now()));
    CHECK_FALSE(find_temporary_keys(kRoot, "ASIA0000000000000000", clock.now()));
    const aws::Credentials rotated{"AKIAROOT", "new-secret", ""};
    CHECK(find_temporary_keys(rotated, keys.access_key, clock.now())->secret_key !=
          keys.secret_key);
}
