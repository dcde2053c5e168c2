// SPDX-License-Identifier: Apache-2.0
#include "api/admin/admin.h"
#include "api/control/manifest.h"
#include "api/testing.h"
#include "base/json.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using namespace ty::api;
using namespace std::chrono_literals;

namespace {

/// A router over the bucket "data" and the image "shell:1", with a job's agents played by hand.
struct World {
    World() {
        images::Definition definition;
        definition.name = "shell";
        definition.match = {"shell:*"};
        definition.toolkit = false;
        images.emplace(std::vector{definition}, std::vector<std::string>{});
        services.emplace(Services{desk.jobs, desk.objects, desk.logs, desk.metrics, desk.tap,
                                  *images, desk.clock, desk.ids, desk.services.settings});
        services->settings.prices["ml.m5.xlarge"] = {.on_demand = 3600, .spot = 900};
        services->settings.currency = "EUR";
        desk.handler = make_router(*services);
        desk.jobs.on_change([this](const jobs::Job& job) {
            launched.with([&](std::map<std::string, bool>& l) {
                const auto& nodes = job.attempts.back().nodes;
                l[job.spec.name] = std::ranges::all_of(
                    nodes, [](const auto& entry) { return entry.second.launched; });
            });
            launched.notify();
        });
        desk.objects.create_bucket("data", "us-east-1");
        put("in/1.txt", "x");
    }
    ~World() { desk.handler = nullptr; }  // before the services it refers to

    void put(const std::string& key, const std::string& text) {
        std::size_t at = 0;
        desk.objects.put("data", key, {}, [&](std::span<std::byte> into) -> std::size_t {
            const std::size_t count = std::min(into.size(), text.size() - at);
            std::memcpy(into.data(), text.data() + at, count);
            at += count;
            return count;
        });
    }

    /// Created, and its agents started.
    Json create(const std::string& name, const Json& more = Json::object()) {
        Json request = parse_json(R"({
            "RoleArn":"arn:aws:iam::000000000000:role/r",
            "AlgorithmSpecification":{"TrainingImage":"shell:1","TrainingInputMode":"File"},
            "InputDataConfig":[{"ChannelName":"train","DataSource":{"S3DataSource":
                {"S3DataType":"S3Prefix","S3Uri":"s3://data/in"}}}],
            "OutputDataConfig":{"S3OutputPath":"s3://data/out"},
            "ResourceConfig":{"InstanceType":"ml.m5.xlarge","InstanceCount":1,"VolumeSizeInGB":30},
            "StoppingCondition":{"MaxRuntimeInSeconds":60}})");
        request["TrainingJobName"] = name;
        request.update(more);
        const http::Response made = desk.json("SageMaker.CreateTrainingJob", dump_json(request));
        INFO(made.body);
        REQUIRE(made.status == 200);
        const auto is_up = [&](const std::map<std::string, bool>& l) {
            const auto found = l.find(name);
            return found != l.end() && found->second;
        };
        const bool up = launched.wait(Deadline::in(20s), {}, is_up, is_up);
        REQUIRE(up);
        return parse_json(made.body);
    }
    Json create_with_checkpoints(const std::string& name) {
        return create(name, parse_json(R"({"CheckpointConfig":{"S3Uri":"s3://data/ckpt/one"}})"));
    }

    /// What the job's only agent says.
    void say(const std::string& name, plan::Payload payload) {
        const jobs::Job job = *desk.jobs.find("us-east-1", name);
        const jobs::Attempt& attempt = job.attempts.back();
        plan::SyncRequest request{.host = "algo-1"};
        request.events.push_back(
            {attempt.nodes.at("algo-1").seen + 1, desk.clock.now(), "algo-1", std::move(payload)});
        desk.jobs.sync({attempt.id, "algo-1", "us-east-1", name}, request, {});
    }

    struct Answer {
        int status = 0;
        Json body;
        std::string text() const { return body.value("message", ""); }
    };
    Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
               bool unsigned_request = false) {
        const http::Response response = desk.send({.method = method,
                                                   .target = "/trainyard/v1/" + path,
                                                   .service = "trainyard",
                                                   .body = body,
                                                   .unsigned_request = unsigned_request});
        INFO(response.body);
        CHECK(response.headers.get("content-type") == "application/json");
        return {response.status, parse_json(response.body)};
    }

    Sync<std::map<std::string, bool>> launched;
    testing::Desk desk;
    std::optional<images::Catalogue> images;
    std::optional<Services> services;
};

bool has(const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

struct Entry {
    std::string path, data, text;
};
/// As an agent writes it (agent/checkpoint/manifest.h).
std::string manifest_text(const std::string& id, const std::string& taken, const std::string& step,
                          const std::vector<Entry>& entries, const std::string& removed = "") {
    std::string text = format(
        "{{\"format\":1,\"id\":\"{}\",\"job\":\"one\",\"job_id\":\"j-1\",\"attempt\":1,"
        "\"generation\":0,\"node\":\"{}\",\"taken\":\"{}\",\"step\":{},\"entries\":[",
        id, id.substr(27), taken, step);
    for (const Entry& entry : entries)
        text += format("{}{{\"path\":\"{}\",\"size\":{},\"sha256\":\"{}\",\"data\":\"{}\"}}",
                       &entry == entries.data() ? "" : ",", entry.path, entry.text.size(),
                       sha256_hex(entry.text), entry.data);
    text += format("],\"removed\":[{}]", removed);
    return text + ",\"sha256\":\"" + sha256_hex(text) + "\"}";
}

constexpr const char* kFirst = "000001-000000000-000000001-algo-1";
constexpr const char* kSecond = "000001-000000000-000000002-algo-1";
constexpr const char* kOther = "000001-000000000-000000001-algo-2";

void put_checkpoint(World& world, const std::string& id, const std::string& taken,
                    const std::string& step, const std::vector<Entry>& entries,
                    const std::string& removed = "") {
    const std::string root = "ckpt/one/.trainyard/";
    for (const Entry& entry : entries)
        world.put(root + "data/" + entry.data + "/" + entry.path, entry.text);
    world.put(root + "manifests/" + id + ".json", manifest_text(id, taken, step, entries, removed));
}

}  // namespace

TEST_CASE("the calls are signed like any other, and what is not there says what is") {
    World world;
    const auto open = world.ask("GET", "jobs/x", "", true);
    CHECK(open.status >= 400);
    CHECK(open.body.at("__type") == "MissingAuthenticationTokenException");
    const auto missing = world.ask("GET", "jobs/x");
    CHECK(missing.status == 404);
    CHECK(missing.body.at("__type") == "ResourceNotFoundException");
    CHECK(missing.text() == "there is no training job \"x\" in us-east-1");
    for (const char* call : {"interrupt", "faults", "scale"}) {
        const std::string body = call == std::string("scale")    ? R"({"instances":2})"
                                 : call == std::string("faults") ? R"({"every":60})"
                                                                 : "{}";
        CHECK(world.ask("POST", std::string("jobs/x/") + call, body).status == 404);
    }
    CHECK(world.ask("GET", "nothing").status == 404);
    has(world.ask("GET", "nothing").text(), "POST /trainyard/v1/jobs/{job}/interrupt");
    has(world.ask("DELETE", "jobs/x/scale").text(), "is not offered; use POST");
    has(world.ask("POST", "jobs/x/faults?region=Mars").text(), "\"Mars\" is no region name");
    CHECK(world.ask("GET", "jobs/%zz").status == 400);
}

TEST_CASE("bad input names every field and the remedy") {
    World world;
    world.create("one");
    const auto bad =
        world.ask("POST", "jobs/one/interrupt", R"({"kind":"explode","tme":3,"node":7,"time":-1})");
    CHECK(bad.status == 400);
    has(bad.text(), "tme is not known; the nearest is time");
    has(bad.text(), "\"explode\" is none of notice, kill, freeze, partition");
    has(bad.text(), "node must be text");
    has(bad.text(), "time must be a number of seconds from 0");
    has(world.ask("POST", "jobs/one/interrupt", R"({"kind":"kill","time":3})").text(),
        "time has no meaning for a kill");
    has(world.ask("POST", "jobs/one/interrupt", "[]").text(), "must be a JSON object");
    CHECK(world.ask("POST", "jobs/one/interrupt", "{").status == 400);
    has(world.ask("POST", "jobs/one/faults", "{}").text(), "every is missing");
    has(world.ask("POST", "jobs/one/faults", R"({"every":60,"seed":1.5})").text(),
        "seed must be a whole number");
    has(world.ask("POST", "jobs/one/scale", "{}").text(), "instances is missing");
    has(world.ask("POST", "jobs/one/scale", R"({"instances":1e99})").text(),
        "instances must be a whole number");
    has(world.ask("POST", "jobs/one/scale", R"({"instances":2})").text(), "is not elastic");
    has(world.ask("GET", "ledger?tag=x").text(), "tag \"x\" must be one KEY=VALUE");
    has(world.ask("GET", "ledger?tog=x").text(), "\"tog\" cannot be used here");
    has(world.ask("GET", "jobs/one/checkpoints").text(), "keeps no checkpoints");
}

TEST_CASE("a running job is interrupted with the notice asked for") {
    World world;
    world.create("one", parse_json(R"({"EnableManagedSpotTraining":true,
        "StoppingCondition":{"MaxRuntimeInSeconds":60,"MaxWaitTimeInSeconds":600}})"));
    world.say("one", plan::PhaseChanged{plan::Phase::training, ""});
    const auto done = world.ask("POST", "jobs/one/interrupt", R"({"node":"algo-1","time":2.5})");
    CHECK(done.status == 200);
    CHECK(done.body == parse_json(R"({"job":"one","kind":"notice","node":"algo-1","time":2.5})"));
    const jobs::Job job = *world.desk.jobs.find("us-east-1", "one");
    const auto& commands = job.attempts.back().nodes.at("algo-1").commands;
    REQUIRE(commands.size() == 1);
    CHECK(std::get<plan::Interrupt>(commands[0]).notice == 2500ms);
    CHECK(world.ask("GET", "jobs/one").body.at("interruptions") == 1);
    has(world.ask("POST", "jobs/one/interrupt", R"({"node":"algo-9"})").text(), "one");
}

TEST_CASE("faults are scheduled by a seed, shown, and ended") {
    World world;
    world.create("one");
    const auto made =
        world.ask("POST", "jobs/one/faults", R"({"every":120,"seed":7,"kind":"freeze","time":1})");
    CHECK(made.status == 200);
    CHECK(made.body.at("seed") == 7);
    const Json shown = world.ask("GET", "jobs/one").body.at("faults");
    CHECK(shown.at("kind") == "freeze");
    CHECK(shown.at("every") == 120.0);
    CHECK(world.ask("DELETE", "jobs/one/faults").status == 200);
    CHECK(world.ask("GET", "jobs/one").body.at("faults").is_null());
    CHECK(world.ask("POST", "jobs/one/faults", R"({"every":60})").body.contains("seed"));
}

TEST_CASE("an elastic job is scaled within its range") {
    World world;
    world.create("one", parse_json(R"({"Tags":[{"Key":"trainyard:elastic","Value":"1:4"}]})"));
    CHECK(world.ask("POST", "jobs/one/scale", R"({"instances":3})").status == 200);
    const Json shown = world.ask("GET", "jobs/one").body;
    CHECK(shown.at("instances") == 3);
    CHECK(shown.at("elastic") == parse_json(R"({"min":1,"max":4})"));
    CHECK(world.ask("POST", "jobs/one/scale", R"({"instances":9})").status == 400);
}

TEST_CASE("checkpoints are listed newest first, torn ones with what is wrong") {
    World world;
    world.create_with_checkpoints("one");
    CHECK(world.ask("GET", "jobs/one/checkpoints").body.at("checkpoints").empty());
    put_checkpoint(world, kFirst, "2026-01-31T12:00:00.000Z", "100",
                   {{"a%20b.pt", kFirst, "1234"}});
    put_checkpoint(world, kSecond, "2026-01-31T12:01:00.000Z", "null",
                   {{"a%20b.pt", kFirst, "1234"}, {"c.pt", kSecond, "567"}});
    const auto answer = world.ask("GET", "jobs/one/checkpoints");
    CHECK(answer.body.at("uri") == "s3://data/ckpt/one");
    Json list = answer.body.at("checkpoints");
    REQUIRE(list.size() == 2);
    CHECK(list[0].at("id") == kSecond);
    CHECK(list[0].at("step").is_null());
    CHECK(list[0].at("size") == 7);
    CHECK(list[0].at("files") == 2);
    CHECK(list[0].at("node") == "algo-1");
    CHECK(list[0].at("valid") == true);
    CHECK(list[1].at("step") == 100);
    CHECK(list[1].at("taken") == "2026-01-31T12:00:00.000Z");

    const std::string root = "ckpt/one/.trainyard/";
    world.put(root + "data/" + kSecond + "/c.pt", "5");  // not what the manifest says
    std::string torn = manifest_text(kOther, "2026-01-31T12:00:00.000Z", "1", {});
    torn[20] ^= 1;
    world.put(root + "manifests/" + kOther + ".json", torn);
    world.put(root + "manifests/nonsense.json", "{}");
    list = world.ask("GET", "jobs/one/checkpoints").body.at("checkpoints");
    REQUIRE(list.size() == 4);
    std::map<std::string, Json> by_id;
    for (const Json& one : list) by_id[one.at("id").get<std::string>()] = one;
    CHECK(by_id.at(kFirst).at("valid") == true);
    CHECK(by_id.at(kSecond).at("problem") == "c.pt has 1 bytes and should have 3");
    CHECK(by_id.at(kOther).at("problem") == "the manifest's checksum is wrong");
    CHECK(by_id.at("nonsense").at("problem") == "its name is no checkpoint id");
    world.desk.objects.remove("data", root + "data/" + std::string(kFirst) + "/a%20b.pt");
    list = world.ask("GET", "jobs/one/checkpoints").body.at("checkpoints");
    has(list.back().at("problem").get<std::string>(), "is missing");  // kFirst sorts last
}

TEST_CASE("manifests that lie do no harm") {
    using control::read_manifest;
    const std::string id = kFirst;
    const auto sealed = [](std::string body) {
        body += ",\"sha256\":\"";
        return body + sha256_hex(std::string_view(body).substr(0, body.size() - 11)) + "\"}";
    };
    for (const std::string& body :
         {std::string("{\"format\":1"), std::string("{\"format\":2"), std::string("[1"),
          std::string("{\"format\":1,\"id\":7"), std::string("")}) {
        CAPTURE(body);
        CHECK_FALSE(read_manifest(id, sealed(body)).problem.empty());
    }
    const std::string good = manifest_text(id, "2026-01-31T12:00:00.000Z", "1", {{"a", id, "x"}});
    CHECK(read_manifest(id, good).problem.empty());
    for (std::size_t i = 0; i < good.size(); i += 7) {
        CHECK_FALSE(read_manifest(id, good.substr(0, i)).problem.empty());
        std::string bent = good;
        bent[i] = static_cast<char>(bent[i] ^ 4);
        CHECK_FALSE(read_manifest(id, bent).problem.empty());
    }
    for (const char* path : {"../x", "/x", "a//b", ".trainyard/x", "a/%2e%2e/b", "%", "a%00b"})
        CHECK_FALSE(
            read_manifest(id, manifest_text(id, "2026-01-31T12:00:00.000Z", "1", {{path, id, "x"}}))
                .problem.empty());
}

TEST_CASE("a job is started from a checkpoint of another one, with every node's files") {
    World world;
    world.create_with_checkpoints("one");
    world.desk.jobs.add_tags(world.desk.jobs.find("us-east-1", "one")->spec.arn, {{"team", "asr"}});
    const std::string inherited = "000001-000000000-000000001-algo-3";
    put_checkpoint(world, kOther, "2026-01-31T11:59:00.000Z", "90",
                   {{"gone.pt", inherited, "old"}, {"shard-2.pt", kOther, "two"}});
    put_checkpoint(world, kFirst, "2026-01-31T12:00:00.000Z", "100", {{"a%20b.pt", kFirst, "1234"}},
                   "\"gone.pt\"");
    put_checkpoint(world, kSecond, "2026-01-31T12:01:00.000Z", "110",
                   {{"a%20b.pt", kSecond, "newer"}});
    const std::string path = format("jobs/one/checkpoints/{}/start", kFirst);
    const auto made = world.ask("POST", path, R"({"name":"two"})");
    INFO(made.text());
    REQUIRE(made.status == 200);
    CHECK(made.body.at("uri") == "s3://data/ckpt/one-two");
    CHECK(made.body.at("files") == 2);
    CHECK(world.desk.objects.find("data", "ckpt/one-two/a b.pt")->size == 4);
    CHECK(world.desk.objects.find("data", "ckpt/one-two/shard-2.pt")->size == 3);
    const jobs::Job two = *world.desk.jobs.find("us-east-1", "two");
    CHECK(two.spec.node.checkpoint->uri == "s3://data/ckpt/one-two");
    CHECK(world.desk.jobs.list_tags(two.spec.arn).at(0).value == "asr");

    CHECK(world.ask("POST", path, R"({"name":"two"})").status == 409);
    const auto taken = world.ask("POST", path, R"({"name":"3","uri":"s3://data/ckpt/one-two/"})");
    has(taken.text(), "there are objects at s3://data/ckpt/one-two already");
    has(world.ask("POST", path, R"({"name":"3","uri":"s3://data/ckpt/one/x"})").text(),
        "lie one in the other");
    has(world.ask("POST", path, R"({"name":"3","uri":"s3://nowhere/x"})").text(),
        "the bucket \"nowhere\" does not exist");
    has(world.ask("POST", path, "{}").text(), "name is missing");
    CHECK(world.ask("POST", "jobs/one/checkpoints/7/start", R"({"name":"3"})").status == 404);
    // A name that the service refuses leaves no copies.
    CHECK(world.ask("POST", path, R"({"name":"not_a_name"})").status == 400);
    CHECK_FALSE(world.desk.objects.find("data", "ckpt/one-not_a_name/a b.pt"));
    world.put(format("ckpt/one/.trainyard/data/{}/a%20b.pt", kFirst), "other");
    has(world.ask("POST", path, R"({"name":"3"})").text(), "cannot be restored: a b.pt has 5");
}

TEST_CASE("a ledger tells time and money, and sums of it by tag") {
    World world;
    world.create("one", parse_json(R"({"Tags":[{"Key":"team","Value":"asr"},
        {"Key":"user","Value":"ada"}],"EnableManagedSpotTraining":true,
        "StoppingCondition":{"MaxRuntimeInSeconds":60,"MaxWaitTimeInSeconds":600}})"));
    world.say("one", plan::PhaseChanged{plan::Phase::training, ""});
    world.desk.clock.advance(10s);
    world.say("one", plan::Finished{.outcome = {}, .model_uploaded = true});
    world.create("two", parse_json(R"({"Tags":[{"Key":"team","Value":"asr"}]})"));
    world.say("two", plan::PhaseChanged{plan::Phase::training, ""});
    world.desk.clock.advance(4s);

    const Json one = world.ask("GET", "jobs/one/ledger").body;
    CHECK(one.at("seconds").at("useful") == 10.0);
    CHECK(one.at("seconds").at("billed") == 10.0);
    CHECK(one.at("goodput") == 1.0);
    CHECK(one.at("cost").at("spent") == doctest::Approx(2.5));
    CHECK(one.at("cost").at("on_demand") == doctest::Approx(10.0));
    CHECK(one.at("cost").at("currency") == "EUR");
    CHECK(world.ask("GET", "jobs/two/ledger").body.at("seconds").at("unsettled") == 4.0);

    const Json sum = world.ask("GET", "ledger?tag=team%3Dasr&by=user").body;
    CHECK(sum.at("jobs") == 2);
    CHECK(sum.at("seconds").at("billed") == 14.0);
    CHECK(sum.at("cost").at("spent") == doctest::Approx(6.5));
    REQUIRE(sum.at("groups").size() == 2);
    CHECK(sum.at("groups")[0].at("value") == "");
    CHECK(sum.at("groups")[1].at("value") == "ada");
    CHECK(sum.at("groups")[1].at("seconds").at("useful") == 10.0);
    CHECK(world.ask("GET", "ledger?tag=team%3Dnlp").body.at("jobs") == 0);
    CHECK(world.ask("GET", "ledger").body.at("jobs") == 2);
    CHECK(world.ask("GET", "ledger?region=eu-west-1").body.at("jobs") == 0);
    world.services->settings.prices.clear();
    CHECK_FALSE(world.ask("GET", "jobs/one/ledger").body.contains("cost"));
    CHECK_FALSE(world.ask("GET", "ledger").body.contains("cost"));
}

TEST_CASE("/metrics counts what came of the time, each job once") {
    Settings settings;
    settings.prices["ml.m5.xlarge"] = {.on_demand = 3600, .spot = 900};
    LedgerMeter meter(settings);
    const Instant now{1'000'000ms};
    jobs::Job job;
    job.id = JobId("j-1");
    job.spec.node.instance_type = "ml.m5.xlarge";
    job.spec.spot = true;
    job.ledger.nodes["algo-1"] = {.doing = jobs::LedgerNode::Doing::training, .since = now};
    job.ledger.sums.useful = 5s;
    job.attempts.emplace_back();
    meter.put(job);
    CHECK(meter.sums(now + 3s).open == 3.0);
    CHECK(meter.sums(now + 3s).money.spent == doctest::Approx(1.25));
    job.version = 2;
    job.ledger.nodes.clear();
    job.ledger.sums.useful = 8s;
    job.ledger.sums.interruptions = 1;
    job.status = jobs::Status::completed;
    meter.put(job);
    meter.put(job);
    job.version = 3;
    job.attempts.back().released = true;
    meter.put(job);
    meter.put(job);
    const LedgerMeter::Sums sums = meter.sums(now + 1h);
    CHECK(sums.time.useful == 8s);
    CHECK(sums.open == 0.0);
    CHECK(sums.money.on_demand == doctest::Approx(8.0));
    AdminFacts facts;
    facts.ledger = sums;
    const std::string text = render_metrics(facts);
    has(text, "trainyard_instance_seconds_total{class=\"useful\"} 8.000\n");
    has(text, "trainyard_interruptions_total 1\n");
    has(text, "trainyard_cost_total{kind=\"spent\",currency=\"USD\"} 2.000000\n");
    facts.ledger.has_prices = false;
    CHECK(render_metrics(facts).find("trainyard_cost_total") == std::string::npos);
}
