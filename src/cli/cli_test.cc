// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"
#include "cli/duration.h"
#include "cli/explain.h"
#include "cli/home.h"
#include "cli/render.h"
#include "cli/verb.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::cli;

namespace {

Parsed parse(std::vector<const char*> words) {
    static const std::vector<Verb> verbs = all_verbs();
    words.insert(words.begin(), "trainyard");
    return parse_command_line(verbs, int(words.size()), words.data());
}

}  // namespace

TEST_CASE("a verb gets its argument and options under their long names") {
    const Parsed parsed = parse({"logs", "-f", "my-job", "--home", "/tmp/x"});
    REQUIRE(parsed.verb != nullptr);
    CHECK(parsed.verb->name == "logs");
    CHECK(parsed.invocation.argument("JOB") == "my-job");
    CHECK(parsed.invocation.has("follow"));
    CHECK(home_of(parsed.invocation) == "/tmp/x");
}

TEST_CASE("usage mistakes exit with 2 and choose no verb") {
    CHECK(parse({"describe"}).exit_code == kUsage);
    CHECK(parse({"describe"}).verb == nullptr);
    CHECK(parse({"jobs", "-o", "xml"}).exit_code == kUsage);
    CHECK(parse({"fly"}).exit_code == kUsage);
    CHECK(parse({"completion", "fish"}).exit_code == kUsage);
}

TEST_CASE("every verb and its flags appear in both completion scripts") {
    for (const std::string shell : {"bash", "zsh"}) {
        const std::string script = completion_script(all_verbs(), shell);
        for (const Verb& verb : all_verbs()) CHECK(script.find(verb.name) != std::string::npos);
        CHECK(script.find("--follow") != std::string::npos);
    }
}

TEST_CASE("lengths of time are read as people write them") {
    CHECK(parse_duration("500ms") == milliseconds(500));
    CHECK(parse_duration("30s") == milliseconds(30'000));
    CHECK(parse_duration("2m") == milliseconds(120'000));
    CHECK(parse_duration("1.5h") == milliseconds(5'400'000));
    CHECK(parse_duration("1d") == milliseconds(86'400'000));
    CHECK(parse_duration("0") == milliseconds(0));
    for (const char* wrong :
         {"", "s", "-1s", "1x", "1 s", "1e3s", "nan", "inf", "9999999d", "1..5s"})
        CHECK_FALSE(parse_duration(wrong).has_value());
}

TEST_CASE("contradictions on the command line of the verbs for faults exit with 2 unasked") {
    for (const std::vector<const char*>& words :
         std::vector<std::vector<const char*>>{{"interrupt", "j", "--kill", "--freeze", "1s"},
                                               {"interrupt", "j", "--notice", "soon"},
                                               {"interrupt", "j", "--seed", "7"},
                                               {"interrupt", "j", "--every", "2m", "--seed", "x"},
                                               {"interrupt", "j", "--stop", "--kill"},
                                               {"interrupt", "j", "--stop", "--every", "2m"},
                                               {"scale", "j", "many"},
                                               {"scale", "j", "0"},
                                               {"checkpoints", "j", "--start", "1"},
                                               {"checkpoints", "j", "--uri", "s3://b/x"},
                                               {"ledger", "j", "--by", "team"},
                                               {"ledger", "--tag", "team"}}) {
        const Parsed parsed = parse(words);
        REQUIRE(parsed.verb != nullptr);
        CHECK(parsed.verb->run(parsed.invocation) == kUsage);
    }
    CHECK(parse({"interrupt"}).exit_code == kUsage);
    CHECK(parse({"ledger"}).verb != nullptr);
}

TEST_CASE("an error is told as what, why and remedy, with a stable exit code") {
    const Explanation told =
        explain(Error(Code::unavailable, "", "connection refused"), "list jobs");
    CHECK(told.text ==
          "trainyard: could not list jobs\n  why:    connection refused\n"
          "  remedy: is the daemon running? `trainyard up` starts it, `trainyard doctor` looks "
          "closer\n");
    CHECK(told.exit_code == kUnreachable);
    CHECK(explain(Error(Code::not_found, "", "x"), "describe x").exit_code == kNotFound);
}

TEST_CASE("a home without a daemon is unavailable and says how to start one") {
    sys::TempDir dir;
    const auto outcome = capture([&] { return require_daemon(dir.path()); });
    REQUIRE_FALSE(outcome.ok());
    CHECK(outcome.error().code() == Code::unavailable);
    CHECK_FALSE(is_daemon_alive(dir.path()));
}

TEST_CASE("a damaged daemon file is reported, not trusted") {
    sys::TempDir dir;
    sys::write_file(dir.path() / "daemon.json", R"({"pid":"x"})");
    CHECK_THROWS_AS(read_daemon(dir.path()), Error);
}

TEST_CASE("values are quoted for the shell and tables align") {
    CHECK(shell_quote("it's") == "'it'\\''s'");
    CHECK(render_table({"A", "B"}, {{"ü", "x"}, {"long", "y"}}) == "A     B\nü     x\nlong  y\n");
    CHECK(show_duration(134) == "2m 14s");
}
