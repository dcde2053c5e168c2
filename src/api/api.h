// SPDX-License-Identifier: Apache-2.0
// The protocol faces: AWS's services, the agent protocol, admin. One folder per service.
#pragma once

#include "aws/aws.h"
#include "base/random.h"
#include "http/http.h"
#include "images/images.h"
#include "jobs/jobs.h"
#include "objects/objects.h"
#include "telemetry/telemetry.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ty::api {

/// Of one instance for one hour.
struct Price {
    double on_demand = 0, spot = 0;
};

struct Settings {
    std::string account = "000000000000";
    std::string region = "us-east-1";             ///< for requests whose scope names none
    std::string role = "TrainyardExecutionRole";  ///< answered by STS and IAM
    aws::Credentials root;                        ///< the owner's keys
    std::string endpoint;                         ///< "http://127.0.0.1:4545"
    std::map<std::string, std::string>
        instance_map;  ///< "ml.p3.2xlarge" -> "cpu": GPU types allowed on the CPU
    int host_gpus = 0;
    seconds stop_grace{120};    ///< between SIGTERM and SIGKILL
    plan::Pairs job_variables;  ///< environment every program gets, below the image's own
    plan::Pairs job_files;      ///< read-only files every program gets: {path, content}
    /// Google's S3-compatible storage for gs:// checkpoints; an empty endpoint: there is none.
    struct Google {
        std::string endpoint;  ///< "http://127.0.0.1:8080": agents speak plain http
        plan::Credentials credentials;
    } google;
    Bytes json_body_limit = Bytes(8u << 20);
    std::map<std::string, Price> prices;  ///< by instance type; empty: no money is shown
    std::string currency = "USD";
};

/// References to what the faces need; all outlive the router.
struct Services {
    jobs::JobService& jobs;
    objects::ObjectStore& objects;
    telemetry::LogStore& logs;
    telemetry::MetricStore& metrics;
    telemetry::MetricTap& tap;
    images::Catalogue& images;
    Clock& clock;
    Ids& ids;
    Settings settings;
};

/// Who is asking, after the signature was checked.
struct Caller {
    std::string access_key;
    std::string region;
    std::string service;
    std::string request_id;
};

/// The one handler behind the server: routes, authenticates, renders every failure. Never throws.
http::Handler make_router(Services& services);

// ---- between router.cc and the service folders
// ----------------------------------------------------

/// One call of an AWS service, authenticated. `body` is the whole body for JSON, query and CBOR
/// services.
struct Call {
    Services& services;
    http::Request& request;
    const aws::Verified& verified;
    Caller caller;
    std::string operation;  ///< "CreateTrainingJob"
    std::string body;
};

// One face per folder; each renders its own errors in its protocol's form.
http::Response serve_sagemaker(Call& call);   // sagemaker/  AWS JSON 1.1
http::Response serve_logs(Call& call);        // logs/       AWS JSON 1.1
http::Response serve_cloudwatch(Call& call);  // cloudwatch/ AWS JSON 1.0, query, RPC-v2 CBOR
http::Response serve_sts(Call& call);         // sts/        query
http::Response serve_iam(Call& call);         // iam/        query
http::Response serve_ecr(Call& call);         // ecr/        AWS JSON 1.1
http::Response serve_ec2(Call& call);         // ec2/        ec2 query
http::Response serve_control(Call& call);     // control/    Trainyard's own calls, REST-JSON
http::Response serve_s3(Call& call);  // s3/         REST-XML, body streamed from request.body
http::Response serve_agent(Services& services,
                           http::Request& request);  // agent/  bearer token, JSON
http::Response serve_admin(Services& services,
                           http::Request& request);  // admin/  /healthz, /metrics

}  // namespace ty::api
