// SPDX-License-Identifier: Apache-2.0
// A stream of unknown length into one object: a single PutObject when it is small, else a multipart
// upload whose parts travel while the next are made. No temporary file; memory is a few parts.
#pragma once

#include "agent/transfer/download.h"
#include "agent/transfer/tar_writer.h"
#include "agent/transfer/tree.h"
#include "base/sync.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

class ObjectWriter {
public:
    ObjectWriter(const MakeClient& make_client, std::string bucket, std::string key, Deadline by,
                 std::stop_token stop);
    /// Without finish() the upload is abandoned: no object appears.
    ~ObjectWriter();
    ObjectWriter(const ObjectWriter&) = delete;
    ObjectWriter& operator=(const ObjectWriter&) = delete;

    /// May wait for parts to leave. Throws what S3 said, cancelled.
    void write(std::string_view data);
    void finish();

private:
    struct Part {
        int number = 0;
        std::string data;
    };
    struct State {
        std::deque<Part> waiting;
        std::vector<std::string> etags;
        std::size_t in_flight = 0;
        bool closed = false;
        std::optional<Error> failure;
    };
    std::size_t part_size() const;
    void send_part();
    void start_workers();
    void work(const std::stop_token& stop);
    void check();

    const MakeClient& make_client_;
    const std::string bucket_, key_;
    const Deadline by_;
    const std::stop_token stop_;
    std::unique_ptr<aws::S3Client> client_;
    std::string buffer_;
    std::string upload_;  ///< id; empty while everything fits into one request
    int parts_ = 0;
    bool done_ = false;
    Sync<State> state_;
    TaskGroup workers_;
};

/// What the uploads of a folder have in common.
struct Transfer {
    MakeClient make_client;
    std::function<void(std::string)> warn;
    std::function<void(const Progress&)> on_progress;
    Deadline by = Deadline::never();
    std::stop_token stop;
};

/// Pack `root` as tar.gz into s3://bucket/key; with TarEnd::open, another archive can follow in the
/// same object. False, and no object, when there is nothing in it.
bool upload_archive(const Transfer& how, const sys::fs::path& root, const std::string& bucket,
                    const std::string& key, TarEnd end = TarEnd::marked);

/// Upload the files of `root` one by one below s3://bucket/prefix/. False when there are none.
bool upload_files(const Transfer& how, const sys::fs::path& root, const std::string& bucket,
                  const std::string& prefix);

}  // namespace ty::agent
