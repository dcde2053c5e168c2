// SPDX-License-Identifier: Apache-2.0
// What a shell must export so that unmodified AWS clients come here and nowhere else.
#include "base/json.h"
#include "cli/home.h"
#include "cli/render.h"

#include <nlohmann/json.hpp>

#include <cstdlib>

namespace ty::cli {

namespace {

std::string joined_no_proxy() {
    std::string value = "localhost,127.0.0.1";
    for (const char* name : {"no_proxy", "NO_PROXY"}) {
        const char* set = std::getenv(name);
        if (set != nullptr && *set != '\0' &&
            std::string(set).find("127.0.0.1") == std::string::npos)
            return std::string(set) + "," + value;
    }
    return value;
}

/// The profile files serve clients that only read profiles. They are rewritten at every call.
void write_profile(const sys::fs::path& dir, const DaemonInfo& daemon) {
    sys::fs::create_directories(dir);
    std::string config, credentials;
    for (const char* profile : {"default", "trainyard"}) {
        const std::string header =
            std::string(profile) == "default" ? "[default]\n" : "[profile trainyard]\n";
        config += header + "region = " + daemon.region + "\nendpoint_url = " + daemon.endpoint +
                  "\noutput = json\n\n";
        credentials +=
            format("[{}]\naws_access_key_id = {}\naws_secret_access_key = {}\n\n", profile,
                   daemon.credentials.access_key, daemon.credentials.secret_key);
    }
    sys::write_file_atomically(dir / "config", config, 0600);
    sys::write_file_atomically(dir / "credentials", credentials, 0600);
    // DefaultS3Bucket stays unset: Session().default_bucket() asks STS, and that question is
    // answered here.
    sys::write_file_atomically(dir / "sagemaker.yaml",
                               "SchemaVersion: '1.0'\nSageMaker:\n  PythonSDK:\n    Modules:\n     "
                               " TelemetryOptOut: true\n",
                               0600);
}

int run_env(const Invocation& invocation) {
    const sys::fs::path home = home_of(invocation);
    const DaemonInfo daemon = require_daemon(home);
    const sys::fs::path dir = home / "aws";
    write_profile(dir, daemon);
    const std::string no_proxy = joined_no_proxy();
    const std::vector<std::pair<std::string, std::string>> variables = {
        {"TRAINYARD_HOME", home.string()},
        {"AWS_ENDPOINT_URL", daemon.endpoint},
        {"AWS_REGION", daemon.region},
        {"AWS_DEFAULT_REGION", daemon.region},
        {"AWS_ACCESS_KEY_ID", daemon.credentials.access_key},
        {"AWS_SECRET_ACCESS_KEY", daemon.credentials.secret_key},
        {"AWS_CONFIG_FILE", (dir / "config").string()},
        {"AWS_SHARED_CREDENTIALS_FILE", (dir / "credentials").string()},
        {"AWS_EC2_METADATA_DISABLED", "true"},
        {"SAGEMAKER_USER_CONFIG_OVERRIDE", (dir / "sagemaker.yaml").string()},
        // Hosts of AWS that clients insist on (the SDK's STS) are answered by the daemon behind
        // this proxy.
        {"AWS_CA_BUNDLE", (home / "ca" / "ca.pem").string()},
        {"HTTPS_PROXY", daemon.endpoint},
        {"https_proxy", daemon.endpoint},
        {"NO_PROXY", no_proxy},
        {"no_proxy", no_proxy},
    };
    const std::vector<std::string> unset = {"AWS_SESSION_TOKEN", "AWS_PROFILE",
                                            "AWS_DEFAULT_PROFILE",
                                            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"};
    if (invocation.get("output") == "json") {
        Json out = Json::object();
        for (const auto& [name, value] : variables) out[name] = value;
        print(dump_json_pretty(out) + "\n");
        return kOk;
    }
    std::string out;
    for (const std::string& name : unset) out += "unset " + name + "\n";
    for (const auto& [name, value] : variables)
        out += "export " + name + "=" + shell_quote(value) + "\n";
    print(out);
    return kOk;
}

}  // namespace

Verb env_verb() {
    return {.name = "env",
            .summary =
                "print the environment that points AWS clients here; use eval \"$(trainyard env)\"",
            .run = run_env};
}

}  // namespace ty::cli
