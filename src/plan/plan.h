// SPDX-License-Identifier: Apache-2.0
// The narrow waist between control plane and node: a NodePlan and Commands go down, Events come up.
// Plain data; the codec keeps unknown fields out and refuses unknown variants, so agents and
// daemons of different versions fail with a sentence and not with garbage.
#pragma once

#include "base/bytes.h"
#include "base/id.h"
#include "base/time.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ty::plan {

inline constexpr int kPlanVersion = 2;

using Pairs = std::vector<std::pair<std::string, std::string>>;  ///< ordered map of strings

enum class InputMode { file, fast_file, pipe };
enum class Distribution { fully_replicated, sharded_by_key };
enum class DataType { s3_prefix, manifest_file, augmented_manifest_file, file_system };

struct Channel {
    std::string name;
    DataType data_type = DataType::s3_prefix;
    std::string uri;  ///< "s3://bucket/prefix"
    Distribution distribution = Distribution::fully_replicated;
    InputMode input_mode = InputMode::file;
    std::string content_type;  ///< empty when not given
    std::string record_wrapper = "None";
    std::string compression = "None";
};

/// What an image URI stands for on this machine: found by images::Catalogue, realised by the agent.
struct Environment {
    std::string name;         ///< "pytorch"
    std::string image;        ///< the URI asked for
    std::string description;  ///< "Python 3.11.2, torch 2.13.0 (/opt/venv/bin/python)", logged and
                              ///< described
    std::string python;  ///< absolute path of the interpreter; empty for a bare host environment
    std::vector<std::string> path;  ///< folders put in front of PATH
    std::vector<std::string>
        readable;     ///< folders outside the system's own that the program may read
    Pairs variables;  ///< environment of the image, e.g. SAGEMAKER_PROGRAM
    std::vector<std::string>
        entrypoint;    ///< the image's ENTRYPOINT; empty: the training toolkit, or `train` on PATH
    std::string code;  ///< folder copied to /opt/ml/code before start; empty: none
    bool toolkit = false;   ///< act as AWS's framework images do: script mode
    bool launcher = false;  ///< the entry point is one of several processes that train together
                            ///< where there are several: started by our own torchrun
};

struct Output {
    std::string uri;  ///< "s3://bucket/prefix/<job>/output", no trailing slash
    enum class Compression { gzip, none } compression = Compression::gzip;
};

struct Credentials {
    std::string access_key, secret_key, session_token;
};

/// A group of equal instances in a cluster of several kinds.
struct InstanceGroup {
    std::string name, instance_type;
    std::vector<std::string> hosts;  ///< sorted lexicographically
};

/// A folder that is kept in step with object storage: restored before the program starts, uploaded
/// while it runs, one complete checkpoint at a time.
struct Checkpoint {
    std::string uri;  ///< "s3://bucket/prefix" or "gs://bucket/prefix", no trailing slash
    std::string local_path = "/opt/ml/checkpoints";
    int keep = 3;             ///< complete checkpoints that stay restorable
    std::string resume;       ///< id of the one to start from; empty: the newest valid one
    std::string endpoint;     ///< of the object storage when it is not the job's own; empty: it is
    Credentials credentials;  ///< for `endpoint`
};

/// The number of nodes may change while the job runs.
struct Elastic {
    int min_nodes = 1, max_nodes = 1;
    int max_restarts = 3;  ///< of the program's own failures; lost machines are not counted
    std::string token;     ///< secret of the rendezvous
};

struct Limits {
    seconds max_runtime{86400};
    seconds stop_grace{120};
    Bytes shared_memory;  ///< /dev/shm; zero: half of memory
    Bytes memory;         ///< zero: unlimited
    int cpus = 0;         ///< zero: unlimited
    int processes = 0;    ///< zero: unlimited
};

/// Everything one agent needs to know. Secrets inside: never logged.
struct NodePlan {
    int version = kPlanVersion;
    AttemptId attempt;
    std::string job_name, job_arn, region, account, role_arn;
    std::string
        endpoint;  ///< "http://127.0.0.1:4545": S3, and what the program gets as AWS_ENDPOINT_URL
    Credentials credentials;         ///< for the agent's transfers and the program's own AWS calls
    std::vector<std::string> hosts;  ///< sorted lexicographically: "algo-1", …
    std::string host;                ///< ours
    std::string instance_type;
    std::string instance_group = "homogeneousCluster";
    std::vector<InstanceGroup> groups;  ///< empty: one group of all hosts
    int attempt_number = 1;             ///< 2 after the first interruption or restart
    int gpus = 0;
    std::string stream;  ///< log stream "<job>/algo-1-<epoch>"
    Environment environment;
    std::vector<std::string> entrypoint;  ///< ContainerEntrypoint
    std::vector<std::string> arguments;   ///< ContainerArguments
    Pairs hyperparameters;                ///< order of arrival
    Pairs variables;                      ///< request Environment
    std::vector<Channel> channels;
    Output output;
    std::optional<Checkpoint> checkpoint;
    std::optional<Elastic> elastic;
    Limits limits;
    std::vector<std::string> warnings;  ///< what the user should know; said at the head of the log
    Pairs sdk_files;  ///< extra read-only files for the program: {path, content}, e.g. the CA
                      ///< certificate
};

enum class Phase { starting, downloading, training, uploading };

/// How the attempt ended on this node, decided by the agent.
struct Outcome {
    enum class Kind {
        completed,
        failed,       ///< the program's or the user's fault: FailureReason in `reason`
        stopped,      ///< asked to
        timed_out,    ///< max_runtime
        agent_error,  ///< ours: InternalServerError
        interrupted,  ///< left after an Interrupt; what it had is in its last checkpoint
    } kind = Kind::completed;
    std::string reason;  ///< complete FailureReason text; empty unless failed/agent_error
    std::optional<int> exit_code;
};

struct AgentUp {
    int pid = 0;
    std::string sandbox;
};  ///< sandbox: rung in use, e.g. "namespaces"
struct PhaseChanged {
    Phase phase = Phase::starting;
    std::string message;
};  ///< same phase again: new status message
struct Finished {
    Outcome outcome;
    bool model_uploaded = false;
};
/// Results are in storage as parts; a Finish command says what to do with them. Only where an
/// attempt has more than one node.
struct Collected {
    bool model = false, output = false;  ///< there was something to upload
};
struct CheckpointCommitted {
    std::string id;                    ///< orders by age within a job: later ones compare greater
    std::optional<std::int64_t> step;  ///< when the files' names or the helper say so
    std::uint64_t bytes = 0;           ///< of all its files
    std::uint64_t uploaded = 0;        ///< of those that were not in storage yet
    int files = 0;
    Instant taken;  ///< state of the folder at this moment
};
struct CheckpointRestored {
    std::string id;  ///< empty: the files lay there without a manifest
    std::uint64_t bytes = 0;
    int skipped = 0;  ///< newer ones that were torn or corrupt
};
/// An elastic job's workers on this node started or ended.
struct GenerationChanged {
    std::int64_t generation = 0;
    int nodes = 0;
    bool running = false;
    std::string cause;  ///< why it ended: "preemption", "resize", "application", …; empty: started
};
/// What the program said about itself.
struct Progress {
    std::int64_t step = 0, total = 0;  ///< total 0: unknown
    std::string message;
};
using Payload = std::variant<AgentUp, PhaseChanged, Finished, Collected, CheckpointCommitted,
                             CheckpointRestored, GenerationChanged, Progress>;

/// `seq` counts from 1 per attempt and node; the control plane drops what it has seen.
struct Event {
    std::uint64_t seq = 0;
    Instant time;  ///< when it happened on the node
    std::string host;
    Payload payload;
};

struct Stop {
    seconds grace{120};
};
/// The machine goes away: SIGTERM (or the launcher's drain) now, SIGKILL when `notice` is over, a
/// last checkpoint, no results, Finished{interrupted}.
struct Interrupt {
    milliseconds notice{120'000};
    std::string why;
};
/// Faults for the user's tests: every process of the program stands still for a while…
struct Freeze {
    milliseconds time{0};
};
/// …or the host's network is cut, the agent's own included.
struct Partition {
    milliseconds time{0};
};
/// Answer to Collected: join the parts of these hosts, in this order, into the job's results
/// (empty: another node does it), then finish.
struct Finish {
    std::vector<std::string> parts;
};
using Command = std::variant<Stop, Interrupt, Freeze, Partition, Finish>;

/// One exchange: POST /agent/v1/sync. The answer waits up to `wait` for a command not yet
/// delivered.
struct SyncRequest {
    std::string host;
    std::vector<Event> events;
    milliseconds wait{0};
    std::uint64_t commands_seen = 0;  ///< highest command number acted on
};
struct SyncReply {
    std::uint64_t acknowledged = 0;    ///< highest event seq stored durably
    std::uint64_t command_number = 0;  ///< of `command`; they count from 1 per node
    std::optional<Command> command;
    bool gone = false;  ///< the attempt is over or unknown: clean up and exit
};

/// JSON both ways. from_json functions throw invalid naming the field.
std::string to_json(const NodePlan& plan);
NodePlan plan_from_json(std::string_view text);
std::string to_json(const SyncRequest& request);
SyncRequest sync_request_from_json(std::string_view text);
std::string to_json(const SyncReply& reply);
SyncReply sync_reply_from_json(std::string_view text);
std::string to_json(const Event& event);
Event event_from_json(std::string_view text);
std::string to_json(const Environment& environment);
Environment environment_from_json(std::string_view text);
std::string to_json(const Command& command);
Command command_from_json(std::string_view text);

}  // namespace ty::plan
