// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/result.h"
#include "daemon/config.h"
#include "daemon/home.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::daemon;

TEST_CASE("an empty configuration is the documented defaults") {
    const Config config = parse_config("/h", "", "config.toml");
    CHECK(config.listen == "127.0.0.1");
    CHECK(config.account == "000000000000");
    CHECK_FALSE(config.port.has_value());
    CHECK(config.stop_grace == seconds(120));
}

TEST_CASE("every key is read") {
    const Config config = parse_config("/h", R"(
listen = "127.0.0.2"
port = 0
account = "123456789012"
region = "cn-north-1"
role = "R"
max_running_jobs = 7
stop_grace_seconds = 3
interpreters = ["/opt/venv"]
algorithms = "/opt/algorithms"
other_hosts = "refuse"
currency = "EUR"
[instance_map]
"ml.p3.2xlarge" = "cpu"
[prices]
"ml.p3.2xlarge" = { on_demand = 3.825, spot = 1.1475 }
"ml.m5.xlarge" = { on_demand = 1 }
[[environments]]
name = "ernie"
match = ["*/ernie:*"]
code = "/srv/ernie"
launcher = true
variables = { SAGEMAKER_PROGRAM = "train.py" }
)",
                                       "config.toml");
    CHECK(config.port == 0);
    CHECK(config.max_running_jobs == 7);
    CHECK(config.stop_grace == seconds(3));
    CHECK(config.other_hosts == OtherHosts::refuse);
    CHECK(config.instance_map.at("ml.p3.2xlarge") == "cpu");
    CHECK(config.currency == "EUR");
    CHECK(config.prices.at("ml.p3.2xlarge").on_demand == 3.825);
    CHECK(config.prices.at("ml.p3.2xlarge").spot == 1.1475);
    CHECK(config.prices.at("ml.m5.xlarge").spot == 1);
    CHECK(config.algorithms == "/opt/algorithms");
    REQUIRE(config.environments.size() == 1);
    CHECK(config.environments[0].launcher);
    CHECK(config.environments[0].variables.at(0).second == "train.py");
}

TEST_CASE("Google's storage is named with its keys or not at all") {
    const std::string keys = "google_access_key = \"GOOG1\"\ngoogle_secret_key = \"s\"\n";
    const Config config = parse_config(
        "/h", "[checkpoints]\ngoogle_endpoint = \"http://127.0.0.1:8080\"\n" + keys, "c.toml");
    CHECK(config.google.endpoint == "http://127.0.0.1:8080");
    CHECK(config.google.credentials.secret_key == "s");
    CHECK(parse_config("/h", "", "c.toml").google.endpoint.empty());
    for (const std::string& table :
         {std::string("[checkpoints]\n"), "[checkpoints]\n" + keys,
          "[checkpoints]\ngoogle_endpoint = \"https://storage.googleapis.com\"\n" + keys})
        CHECK_THROWS_AS(parse_config("/h", table, "c.toml"), Error);
}

TEST_CASE("prices that cannot be meant are refused by instance type") {
    const auto told = [](const std::string& line) {
        return std::string(
            capture([&] { return parse_config("/h", "[prices]\n" + line, "c.toml"); })
                .error()
                .what());
    };
    CHECK(told("\"ml.p3.2xlage\" = { on_demand = 1 }").find("the nearest is ml.p3.2xlarge") !=
          std::string::npos);
    CHECK(told("\"ml.m5.xlarge\" = { on_demand = 1, spot = 2 }").find("spot: is above on_demand") !=
          std::string::npos);
    CHECK(told("\"ml.m5.xlarge\" = { spot = 2 }").find("on_demand: is missing") !=
          std::string::npos);
    CHECK(told("\"ml.m5.xlarge\" = { on_demand = -1 }").find("must be a number") !=
          std::string::npos);
    CHECK(told("\"ml.m5.xlarge\" = 3").find("must be a table") != std::string::npos);
    CHECK(told("\"ml.m5.xlarge\" = { on_demand = 1, sport = 2 }").find("nearest is spot") !=
          std::string::npos);
}

TEST_CASE("all mistakes of a configuration are told at once, with their lines") {
    const auto outcome = capture([] {
        return parse_config(
            "/h", "prot = 1\naccount = \"12\"\nport = 99999\n[[environments]]\nname = \"x\"\n",
            "c.toml");
    });
    REQUIRE_FALSE(outcome.ok());
    const std::string text = outcome.error().what();
    CHECK(text.find("c.toml:1: prot: is not a known key; the nearest is port") !=
          std::string::npos);
    CHECK(text.find("c.toml:2: account: must be twelve digits") != std::string::npos);
    CHECK(text.find("c.toml:3: port: must be a whole number from 0 to 65535") != std::string::npos);
    CHECK(text.find("environments.match: is missing") != std::string::npos);
}

TEST_CASE("broken TOML names file and line") {
    const auto outcome = capture([] { return parse_config("/h", "a = \n", "c.toml"); });
    REQUIRE_FALSE(outcome.ok());
    CHECK(std::string(outcome.error().what()).starts_with("c.toml:1: "));
}

TEST_CASE("a home belongs to one daemon, and its keys stay") {
    sys::TempDir dir;
    const sys::FileLock lock = lock_home(dir.path());
    CHECK_THROWS_AS(lock_home(dir.path()), Error);
    SeededIds ids(1);
    const aws::Credentials first = load_or_create_keys(dir.path(), ids);
    CHECK(load_or_create_keys(dir.path(), ids).secret_key == first.secret_key);
    CHECK((sys::fs::status(dir.path() / "keys.json").permissions() & sys::fs::perms::group_read) ==
          sys::fs::perms::none);
}
