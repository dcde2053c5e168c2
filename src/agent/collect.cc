// SPDX-License-Identifier: Apache-2.0
#include "agent/collect.h"

#include "agent/transfer/parts.h"
#include "agent/transfer/upload.h"
#include "agent/verdict.h"
#include "aws/aws.h"
#include "base/error.h"

namespace ty::agent {

namespace {

constexpr const char* kUploading = "Uploading generated training model";

class Collector {
public:
    Collector(const NodeContext& node, plan::Outcome& outcome)
        : node_(node),
          outcome_(outcome),
          meter_(kUploading, node.clock, [&node](const std::string& text) {
              node.uplink.emit(plan::PhaseChanged{plan::Phase::uploading, text});
          }) {}

    bool run() {
        node_.uplink.emit(plan::PhaseChanged{plan::Phase::uploading, kUploading});
        try {
            const aws::S3Uri uri = aws::parse_s3_uri(node_.plan.output.uri);
            return node_.has_peers() ? among_peers(uri) : alone(uri);
        } catch (const Error& error) {
            return not_stored(error);
        }
    }

private:
    bool is_archive() const {
        return node_.plan.output.compression == plan::Output::Compression::gzip;
    }

    Transfer transfer() {
        return {.make_client = node_.make_client,
                .warn = [this](const std::string& text) { node_.say("warning: " + text); },
                .on_progress = [this](const Progress& now) { meter_.update(now); },
                .by = node_.by,
                .stop = node_.orders.expired()};
    }

    bool upload(const sys::fs::path& root, const aws::S3Uri& place, TarEnd end) {
        const Transfer how = transfer();
        if (is_archive())
            return upload_archive(how, root, place.bucket, place.key + ".tar.gz", end);
        return upload_files(how, root, place.bucket, place.key);
    }

    bool alone(const aws::S3Uri& uri) {
        const bool model =
            upload(node_.paths.model(), {uri.bucket, uri.key + "/model"}, TarEnd::marked);
        upload(node_.paths.output_data(), {uri.bucket, uri.key + "/output"}, TarEnd::marked);
        return model;
    }

    bool among_peers(const aws::S3Uri& uri) {
        // Files have names of their own and go to their place at once; archives are joined later.
        const PartsPlace parts{uri.bucket, uri.key, node_.plan.attempt.str()};
        const std::string place = is_archive() ? parts.folder(node_.start.host) : uri.key;
        // Our own failure is no end of the program: another node may do better.
        if (outcome_.kind == plan::Outcome::Kind::agent_error) return false;
        plan::Collected collected;
        collected.model = upload(node_.paths.model(), {uri.bucket, place + "/model"}, TarEnd::open);
        collected.output =
            upload(node_.paths.output_data(), {uri.bucket, place + "/output"}, TarEnd::open);
        node_.uplink.emit(collected);
        // Whose program failed says so now: the others stand and wait for it.
        if (outcome_.kind == plan::Outcome::Kind::failed) return collected.model && !is_archive();
        // A fixed attempt is over for all when one is interrupted; an elastic one goes on.
        const Orders::Now now = node_.orders.wait_for_finish(
            node_.plan.elastic ? Orders::Patience::to_the_end : Orders::Patience::none);
        if (now.gone) return false;
        if (!now.finish) {
            if (const auto notice = node_.orders.take_notice()) node_.say(*notice);
            outcome_ = ended_by(now, outcome_.exit_code);
            return false;
        }
        if (!is_archive()) return collected.model;
        return !now.finish->parts.empty() && join(parts, now.finish->parts);
    }

    bool join(const PartsPlace& parts, const std::vector<std::string>& nodes) {
        const Transfer how = transfer();
        std::optional<bool> model = find_joined(how, parts);
        if (!model) {
            model = join_parts(how, parts, nodes, "model.tar.gz");
            join_parts(how, parts, nodes, "output.tar.gz");
            note_joined(how, parts, *model);
        }
        remove_parts(how, parts);
        return *model;
    }

    bool not_stored(const Error& error) {
        const Orders::Now now = node_.orders.now();
        if (error.code() == Code::cancelled) {
            if (const auto notice = node_.orders.take_notice()) node_.say(*notice);
            if (!now.gone) node_.say("the results were not uploaded within the notice");
            if (outcome_.kind == plan::Outcome::Kind::completed && !now.gone)
                outcome_ = ended_by(now, outcome_.exit_code);
            return false;
        }
        node_.say(std::string("upload of the results failed: ") + error.what());
        if (outcome_.kind == plan::Outcome::Kind::completed) {
            const std::string text = std::string("Artifact upload failed:") + error.what();
            outcome_ = is_users(error.code()) ? failed("ClientError: " + text, outcome_.exit_code)
                                              : agent_error(text);
        }
        return false;
    }

    const NodeContext& node_;
    plan::Outcome& outcome_;
    Meter meter_;
};

}  // namespace

bool collect_results(const NodeContext& node, plan::Outcome& outcome) {
    return Collector(node, outcome).run();
}

}  // namespace ty::agent
