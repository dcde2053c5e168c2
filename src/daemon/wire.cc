// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire.h"

#include "api/api.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/environments.h"
#include "daemon/home.h"
#include "engine/local/local.h"
#include "images/images.h"

#include <csignal>

namespace ty::daemon {

namespace {

bool is_loopback(const std::string& address) {
    return address == "localhost" || address == "::1" || address.starts_with("127.");
}

/// Keys a running attempt signs with: derived, so that a restarted daemon hands out the same ones.
plan::Credentials derive_credentials(const aws::Credentials& root, const AttemptId& attempt) {
    const std::string seed =
        to_hex(hmac_sha256(as_bytes(root.secret_key), "attempt:" + attempt.str()));
    return {.access_key = "TYJB" + to_upper(seed.substr(0, 16)), .secret_key = seed.substr(16)};
}

sys::fs::path agent_binary() {
    const sys::fs::path path =
        sys::fs::read_symlink("/proc/self/exe").parent_path() / "trainyard-agent";
    if (!sys::fs::exists(path))
        throw_error(Code::not_found, "",
                    "{} is missing; the daemon and its agent are installed side by side",
                    path.string());
    return path;
}

/// What every job gets so that its own AWS calls come back here.
constexpr const char* kCaPathInJob = "/opt/trainyard/ca.pem";
constexpr const char* kSdkConfigInJob = "/opt/trainyard/sagemaker.yaml";

plan::Pairs job_variables(const std::string& endpoint) {
    return {{"AWS_CA_BUNDLE", kCaPathInJob},
            {"SAGEMAKER_USER_CONFIG_OVERRIDE", kSdkConfigInJob},
            {"AWS_EC2_METADATA_DISABLED", "true"},
            {"HTTPS_PROXY", endpoint},
            {"https_proxy", endpoint},
            {"NO_PROXY", "localhost,127.0.0.1"},
            {"no_proxy", "localhost,127.0.0.1"}};
}

}  // namespace

/// Members in order of construction; destroyed in reverse.
struct Daemon::Parts {
    explicit Parts(Config settings)
        : config(std::move(settings)),
          lock(lock_home(config.home)),
          keys(load_or_create_keys(config.home, ids)),
          authority(http::open_tls_authority(config.home / "ca")),
          db(config.home / "state.db"),
          objects(config.home / "objects", db, clock),
          logs(config.home / "logs", clock),
          metrics(db),
          tap(logs, db),
          images(open_catalogue(config)),
          listener(open_listener(config)),
          endpoint(format("http://{}:{}", config.listen, listener.port())),
          engine(engine::make_local({.agent = agent_binary(), .state = config.home})),
          jobs(db, *engine, clock, ids, placing()),
          services{.jobs = jobs,
                   .objects = objects,
                   .logs = logs,
                   .metrics = metrics,
                   .tap = tap,
                   .images = images,
                   .clock = clock,
                   .ids = ids,
                   .settings = api_settings()},
          server(std::move(listener), api::make_router(services), server_options()) {
        announce(config, endpoint, keys);
    }

    jobs::Placing placing() const {
        return {.control_plane = endpoint,
                .credentials =
                    [root = keys](const AttemptId& attempt) {
                        return derive_credentials(root, attempt);
                    },
                .max_running = int(config.max_running_jobs)};
    }

    api::Settings api_settings() const {
        const std::string ca = http::ca_certificate_pem(*authority);
        return {.account = config.account,
                .region = config.region,
                .role = config.role,
                .root = keys,
                .endpoint = endpoint,
                .instance_map = config.instance_map,
                .host_gpus = engine->capacity().gpus,
                .stop_grace = config.stop_grace,
                .job_variables = job_variables(endpoint),
                .job_files = {{kCaPathInJob, ca},
                              {kSdkConfigInJob,
                               "SchemaVersion: '1.0'\nSageMaker:\n  PythonSDK:\n    Modules:\n     "
                               " TelemetryOptOut: true\n"}},
                .google = config.google,
                .prices = config.prices,
                .currency = config.currency};
    }

    http::ServerOptions server_options() const {
        http::ServerOptions options{.authority = authority};
        // Passing strangers' connections on would make a daemon that others can reach an open
        // relay.
        const bool tunnels = config.other_hosts == OtherHosts::tunnel && is_loopback(config.listen);
        options.on_connect = [tunnels](const std::string& host, std::uint16_t) {
            using Connect = http::ServerOptions::Connect;
            if (aws::is_aws_host(host)) return Connect::intercept;
            return tunnels ? Connect::tunnel : Connect::refuse;
        };
        return options;
    }

    SystemClock clock;
    SystemIds ids;
    Config config;
    sys::FileLock lock;
    aws::Credentials keys;
    std::shared_ptr<http::TlsAuthority> authority;
    store::Db db;
    objects::ObjectStore objects;
    telemetry::LogStore logs;
    telemetry::MetricStore metrics;
    telemetry::MetricTap tap;
    images::Catalogue images;
    sys::Listener listener;
    std::string endpoint;
    std::unique_ptr<engine::Engine> engine;
    jobs::JobService jobs;
    api::Services services;
    http::Server server;
};

Daemon::Daemon(Config config) {
    sys::fs::create_directories(config.home);
    sys::fs::permissions(config.home, sys::fs::perms::owner_all);
    parts_ = std::make_unique<Parts>(std::move(config));
}

Daemon::~Daemon() = default;

const std::string& Daemon::endpoint() const {
    return parts_->endpoint;
}

}  // namespace ty::daemon
