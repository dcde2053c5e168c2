// SPDX-License-Identifier: Apache-2.0
// Each source watches on its own and reports once; none can hold up the launcher's thread.
#include "agent/launcher/notice/notices.h"

#include "agent/launcher/notice/inotify.h"
#include "agent/launcher/notice/notice_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "http/http.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <sys/inotify.h>

namespace ty::agent {

namespace {

constexpr milliseconds kSettle{20};         ///< from a file's creation to its content
constexpr milliseconds kSafetyCheck{1000};  ///< remote writers cause no inotify events
constexpr milliseconds kFileTimer{200};     ///< where the folder cannot be watched
constexpr milliseconds kWallCheck{2000};    ///< the wall clock may jump at any time
constexpr milliseconds kUrlInterval{1000};
constexpr Bytes kMaxDocument{64u << 10};

using Report = std::function<void(const Notice&)>;

/// --notice-file.
class FileSource {
public:
    FileSource(sys::Poller& poller, sys::fs::path path, const Clock& clock, Report report)
        : poller_(poller),
          path_(std::move(path)),
          clock_(clock),
          report_(std::move(report)),
          timer_(format("notice file {}", static_cast<const void*>(this))) {
        if (inotify_.is_open()) poller_.add(inotify_.fd(), [this] { on_events(); });
        look_again_in(milliseconds(0));
    }
    ~FileSource() { stop(); }
    FileSource(const FileSource&) = delete;
    FileSource& operator=(const FileSource&) = delete;

private:
    void on_events() {
        bool created = false, written = false;
        for (const Inotify::Event& event : inotify_.read()) {
            if ((event.mask & (IN_IGNORED | IN_MOVE_SELF)) != 0) is_watched_ = false;
            // Any name: the file may be a link into a folder that is swapped as a whole.
            if ((event.mask & IN_CREATE) != 0) created = true;
            if ((event.mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0) written = true;
        }
        if (written)
            check();
        else if (created)
            look_again_in(kSettle);
    }

    void look_again_in(milliseconds delay) {
        poller_.set_timer(timer_, Deadline::in(delay), [this] { check(); });
    }

    void check() {
        if (!is_watched_) {
            const sys::fs::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
            is_watched_ = inotify_.add(folder, IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO |
                                                   IN_MOVE_SELF | IN_ONLYDIR) >= 0;
        }
        std::error_code failed;
        const sys::fs::file_status status = sys::fs::status(path_, failed);
        if (!sys::fs::exists(status) || sys::fs::is_directory(status)) {
            look_again_in(is_watched_ ? kSafetyCheck : kFileTimer);
            return;
        }
        Notice notice{std::nullopt, "notice file " + path_.string()};
        try {
            // Reading a pipe would wait for its writer; that it is there says enough.
            if (sys::fs::is_regular_file(status)) {
                const std::string text = sys::read_file(path_, kMaxDocument);
                notice.deadline = parse_notice_file(text, clock_.now());
            }
        } catch (const Error& error) {
            log::warning("the notice file is taken as one without a deadline",
                         {{"error", error.what()}});
        }
        stop();
        report_(notice);  // the last statement: it may destroy us
    }

    void stop() {
        poller_.cancel_timer(timer_);
        if (inotify_.is_open()) poller_.remove(inotify_.fd());
    }

    sys::Poller& poller_;
    const sys::fs::path path_;
    const Clock& clock_;
    const Report report_;
    const std::string timer_;
    Inotify inotify_;
    bool is_watched_ = false;
};

/// --notice-url: a thread of its own, because an address that answers nobody takes its time.
class UrlSource {
public:
    UrlSource(sys::Poller& poller, std::string url, const Clock& clock, Report report)
        : poller_(poller), url_(std::move(url)), clock_(clock), report_(std::move(report)) {
        const auto query = url_.find('?');
        address_ = http::parse_url(url_.substr(0, query));
        if (address_.scheme != "http") {
            throw_error(Code::invalid, "InvalidUrl",
                        "--notice-url {}: only http:// is polled; put a local proxy before it",
                        url_);
        }
        target_ = address_.path.empty() ? "/" : address_.path;
        // parse_url() drops the last slash, which metadata services care about.
        if (url_.substr(0, query).ends_with('/') && !target_.ends_with('/')) target_ += '/';
        if (query != std::string::npos) target_ += url_.substr(query);
        address_.path.clear();  // the client would put it before every target
        poller_.add(wake_.fd(), [this] { deliver(); });
        tasks_.start("notice-url", [this](const std::stop_token& stop) { poll(stop); });
    }
    ~UrlSource() {
        poller_.remove(wake_.fd());
        tasks_.stop_and_join();
    }
    UrlSource(const UrlSource&) = delete;
    UrlSource& operator=(const UrlSource&) = delete;

private:
    void poll(const std::stop_token& stop) {
        http::Client client(address_);
        bool warned = false;
        do {
            const Deadline next = Deadline::in(kUrlInterval);
            try {
                if (const auto document = fetch(client, Deadline::in(2 * kUrlInterval), stop)) {
                    if (const auto seen = parse_notice_document(*document, clock_.now())) {
                        found_.with([this, &seen](std::optional<Notice>& found) {
                            found = Notice{seen->deadline, "notice from " + url_ + seen->action};
                        });
                        wake_.notify();
                        return;
                    }
                }
            } catch (const Error& error) {
                if (!warned && error.code() != Code::cancelled)
                    log::warning("the notice address does not answer; it is tried again",
                                 {{"url", url_}, {"error", error.what()}});
                warned = true;
            }
            if (!sys::pause(next, stop)) return;
        } while (!stop.stop_requested());
    }

    /// The document, or nullopt when there is none.
    std::optional<std::string> fetch(http::Client& client, Deadline by,
                                     const std::stop_token& stop) {
        http::ClientResponse response = client.send(request("GET", target_), by, stop);
        if (response.status == 401) {
            // Instance metadata that wants a session first.
            http::ClientRequest ask = request("PUT", "/latest/api/token");
            ask.headers.add("X-aws-ec2-metadata-token-ttl-seconds", "21600");
            const http::ClientResponse answer = client.send(ask, by, stop);
            if (answer.status != 200) return std::nullopt;
            session_ = answer.body;
            response = client.send(request("GET", target_), by, stop);
        }
        if (response.status != 200 || response.body.size() > kMaxDocument.count())
            return std::nullopt;
        return std::move(response.body);
    }

    http::ClientRequest request(const char* method, const std::string& target) const {
        http::ClientRequest out;
        out.method = method;
        out.target = target;
        out.headers.add("Accept", "*/*");
        out.headers.add("Metadata-Flavor", "Google");
        const bool is_sane = session_.find_first_of("\r\n") == std::string::npos;
        if (!session_.empty() && is_sane) out.headers.add("X-aws-ec2-metadata-token", session_);
        return out;
    }

    void deliver() {
        wake_.drain();
        const std::optional<Notice> found = found_.with(
            [](std::optional<Notice>& value) { return std::exchange(value, std::nullopt); });
        if (found) report_(*found);  // the last statement: it may destroy us
    }

    // Constant after construction.
    sys::Poller& poller_;
    const std::string url_;
    const Clock& clock_;
    const Report report_;
    http::Url address_;
    std::string target_;
    // Own synchronisation.
    sys::WakeFd wake_;
    Sync<std::optional<Notice>> found_;
    // Of the polling thread.
    std::string session_;
    TaskGroup tasks_;
};

/// --end-time.
class EndTime {
public:
    EndTime(sys::Poller& poller, Instant end, milliseconds before, const Clock& clock,
            Report report)
        : poller_(poller),
          end_(end),
          before_(before),
          clock_(clock),
          report_(std::move(report)),
          timer_(format("end time {}", static_cast<const void*>(this))) {
        look_again_in(milliseconds(0));
    }
    ~EndTime() { poller_.cancel_timer(timer_); }
    EndTime(const EndTime&) = delete;
    EndTime& operator=(const EndTime&) = delete;

private:
    void look_again_in(milliseconds delay) {
        poller_.set_timer(timer_, Deadline::in(delay), [this] { check(); });
    }
    void check() {
        const milliseconds left = end_ - clock_.now();
        if (left > before_) {
            look_again_in(std::min(left - before_, kWallCheck));
            return;
        }
        report_({std::max(left, milliseconds(0)), "end time " + format_iso8601(end_)});
    }

    sys::Poller& poller_;
    const Instant end_;
    const milliseconds before_;
    const Clock& clock_;
    const Report report_;
    const std::string timer_;
};

}  // namespace

struct NoticeSources::State {
    std::optional<FileSource> file;
    std::optional<UrlSource> url;
    std::optional<EndTime> end;
};

NoticeSources::NoticeSources(sys::Poller& poller, const LaunchOptions& options, const Clock& clock,
                             std::function<void(const Notice&)> on_notice)
    : state_(std::make_unique<State>()) {
    if (!options.notice_file.empty())
        state_->file.emplace(poller, options.notice_file, clock, on_notice);
    if (!options.notice_url.empty())
        state_->url.emplace(poller, options.notice_url, clock, on_notice);
    if (options.end_time)
        state_->end.emplace(poller, *options.end_time, options.drain_before, clock, on_notice);
}

NoticeSources::~NoticeSources() = default;

}  // namespace ty::agent
