// SPDX-License-Identifier: Apache-2.0
// The manifest as bytes: what is written reads back, and what others made of it is refused.
#include "agent/checkpoint/manifest.h"
#include "agent/checkpoint/names.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;

namespace {

const std::string kDigest(64, 'a');

Manifest sample() {
    Manifest m;
    m.id = {{2, 5}, 7, "algo-1"};
    m.job = "bert \"x\"";
    m.job_id = "j-1";
    m.attempt = 2;
    m.taken = from_epoch_millis(1'769'860'800'123);
    m.step = 1200;
    m.entries = {
        {"a b.pt", 3, kDigest, {{2, 5}, 7, "algo-1"}, from_epoch_millis(1'769'860'800'000)},
        {"checkpoint-1200/m\xff.pt", 0, kDigest, {{1, 0}, 3, "algo-2~3"}, from_epoch_millis(0)}};
    m.removed = {"gone.pt"};
    return m;
}

std::string reseal(std::string text) {
    const std::size_t seal = text.rfind(",\"sha256\":\"");
    const std::string body = text.substr(0, seal);
    return body + ",\"sha256\":\"" + sha256_hex(body) + "\"}";
}

std::string refusal(const std::string& text) {
    try {
        parse_manifest(text, sample().id);
    } catch (const Error& error) {
        CHECK(error.code() == Code::corrupt);
        return error.message();
    }
    return "accepted";
}

std::string changed(std::string_view from, std::string_view to) {
    const std::string text = replace_all(to_json(sample()), from, to);
    REQUIRE(text != to_json(sample()));
    return refusal(reseal(text));
}

bool says(const std::string& text, std::string_view part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a manifest reads back as it was written") {
    const Manifest m = parse_manifest(to_json(sample()), sample().id);
    CHECK(to_json(m) == to_json(sample()));
    CHECK(m.entries[1].path == "checkpoint-1200/m\xff.pt");
    CHECK(m.owns(m.entries[0]));
    CHECK_FALSE(m.owns(m.entries[1]));
    CHECK(m.bytes() == 3);
    CHECK(m.step == 1200);
    CHECK(m.taken == sample().taken);
}

TEST_CASE("every prefix of a manifest and every flipped byte is refused") {
    const std::string text = to_json(sample());
    for (std::size_t size = 0; size < text.size(); ++size)
        CHECK(refusal(text.substr(0, size)) != "accepted");
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string other = text;
        other[at] = static_cast<char>(other[at] ^ 1);
        CHECK(refusal(other) != "accepted");
    }
    CHECK(refusal(text + "}") != "accepted");
}

TEST_CASE("a manifest that names places it should not is refused, sealed or not") {
    for (const std::string_view path :
         {"../x", "/etc/passwd", "a/../b", "a//b", "./a", "a/.", "..", "", "a/", ".trainyard/x",
          ".trainyard", "a%00b", "%2E%2E/x", "%2e%2e", "a%", "a b"}) {
        CAPTURE(path);
        CHECK(changed("\"path\":\"a%20b.pt\"", "\"path\":\"" + std::string(path) + "\"") !=
              "accepted");
        CHECK(changed("\"gone.pt\"", '"' + std::string(path) + '"') != "accepted");
    }
    CHECK(changed("a%20b.pt", std::string(5000, 'a')) != "accepted");
    CHECK(changed("a%20b.pt", std::string(300, 'a')) != "accepted");
}

TEST_CASE("numbers beyond reason, other types and missing members are refused by name") {
    for (const std::string_view number :
         {"-1", "1e99", "18446744073709551615", "18446744073709551616", "9007199254740993", "1.5",
          "\"3\"", "null", "[]", "{}"}) {
        CAPTURE(number);
        CHECK(says(changed("\"size\":3", "\"size\":" + std::string(number)), "size"));
        CHECK(says(changed("\"attempt\":2", "\"attempt\":" + std::string(number)), "attempt"));
    }
    CHECK(says(changed("\"format\":1", "\"format\":2"), "format"));
    CHECK(says(changed("\"step\":1200", "\"step\":1.5"), "step"));
    CHECK(says(changed("\"step\":1200", "\"step\":18446744073709551615"), "step"));
    CHECK(says(changed("\"generation\":5", "\"generation\":6"), "generation"));
    CHECK(says(changed("\"job_id\":\"j-1\",", ""), "job_id"));
    CHECK(says(changed("2026-01-31", "2026-13-31"), "taken"));
    CHECK(
        says(changed("\"sha256\":\"" + kDigest, "\"sha256\":\"" + std::string(64, 'A')), "digest"));
    CHECK(says(changed("\"sha256\":\"" + kDigest, "\"sha256\":\"aa"), "digest"));
    CHECK(says(changed("\"id\":\"000002", "\"id\":\"000003"), "another"));
    CHECK(says(changed("000001-000000000-000000003-algo-2~3", "000003-000000000-000000003-algo-2"),
               "newer"));
    CHECK(says(changed("000001-000000000-000000003-algo-2~3", "x"), "id"));
    CHECK(changed("\"removed\":[\"gone.pt\"]", "\"removed\":[1]") != "accepted");
    CHECK(changed("\"removed\":[\"gone.pt\"]", "\"removed\":[\"b\",\"a\"]") != "accepted");
}

TEST_CASE("paths that cannot stand beside each other are refused") {
    Manifest m = sample();
    m.entries = {m.entries[0], m.entries[0]};
    CHECK(says(refusal(to_json(m)), "order"));
    m.entries[0].path = "a";
    m.entries[1].path = "a/b";
    CHECK(says(refusal(to_json(m)), "below"));
    m.entries.insert(m.entries.begin() + 1, m.entries[0]);
    m.entries[1].path = "a.x";  // sorts between
    CHECK(says(refusal(to_json(m)), "below"));
}

TEST_CASE("ids order by age, as values and as text") {
    const CheckpointId early{{1, 999}, 999, "z"}, late{{2, 0}, 1, "a"};
    CHECK(early < late);
    CHECK(early.str() < late.str());
    CHECK(CheckpointId::parse(early.str()) == early);
    for (const std::string_view text :
         {"", "1-2-3-a", "000001-000000000-000000001-", "000001-000000000-000000001-a/b",
          "00000x-000000000-000000001-a", "000001-000000000-000000001-..",
          "0000001-000000000-000000001-a"})
        CHECK_FALSE(CheckpointId::parse(text).has_value());
}

TEST_CASE("a step is read from the names programs use") {
    CHECK(step_of("checkpoint-1200/model.pt") == 1200);
    CHECK(step_of("checkpoint-1200/model-00001-of-00003.safetensors") == 1200);
    CHECK(step_of("step=1200.ckpt") == 1200);
    CHECK(step_of("epoch12-step1200.ckpt") == 1200);
    CHECK(step_of("epoch=12-step=1200.ckpt") == 1200);
    CHECK(step_of("ckpt_1200.pt") == 1200);
    CHECK(step_of("global_step42/mp_rank_00_model_states.pt") == 42);
    CHECK_FALSE(step_of("last.pt").has_value());
    CHECK_FALSE(step_of("model-7b.pt").has_value());
    CHECK_FALSE(step_of("checkpoint-99999999999999999999.pt").has_value());
    CHECK(step_of_state("{\"step\": 7, \"x\": []}") == 7);
    CHECK_FALSE(step_of_state("{\"step\": \"7\"}").has_value());
    CHECK_FALSE(step_of_state("{\"step\"").has_value());
}

TEST_CASE("names of what is not finished, and hidden ones, are left out") {
    for (const std::string_view path :
         {"a.tmp", "d.tmp/a", ".hidden", "a/.git/x", "x.partial", "y.incomplete", "z~"})
        CHECK(is_left_out(path));
    for (const std::string_view path : {"a.pt", "tmp/a", "a.tmp.pt"})
        CHECK_FALSE(is_left_out(path));
}

TEST_CASE("a name that S3 cannot carry is shown encoded") {
    CHECK(visible_key("a b/ü.pt") == "a b/ü.pt");
    CHECK(visible_key("x\xff") == "x%FF");
    CHECK(visible_key("a\nb") == "a%0Ab");
}
