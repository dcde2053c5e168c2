// SPDX-License-Identifier: Apache-2.0
// One .yard story being told; README.md has the language. Failing lines throw invalid with what was
// wanted and what is.
#pragma once

#include "base/text.h"
#include "engine/fake/fake.h"
#include "jobs/jobs.h"
#include "sys/sys.h"
#include "tests/support/fake_clock.h"

#include <map>
#include <memory>

namespace ty::scenario {

class Script {
public:
    Script();
    /// Run one line.
    void line(std::string_view text);

private:
    using Words = std::vector<std::string>;
    /// The rest of the line from word `index` on.
    std::string rest(std::size_t index) const;
    const std::string& word(std::size_t index) const;
    long long number(std::size_t index) const;

    void request();
    void option(const std::string& text, jobs::JobSpec& spec) const;
    void fault();
    void event();
    plan::Payload payload() const;
    void repeat();
    void expect();
    void expect_job(const std::string& name);
    /// What is, in the form the expectation is written in.
    std::string actual(const std::string& name, const std::string& aspect);
    bool is_started(const std::string& name, const std::string& host);
    static std::string nodes(const jobs::Job& job);
    std::string transition(const jobs::Job& job, std::size_t index) const;
    std::string command(const std::string& name, const std::string& host);
    void capture_error(const std::function<void()>& fn);

    void up();
    jobs::Job job(const std::string& name) const;
    AttemptId attempt(const std::string& name);
    jobs::JobService::AgentIdentity agent(const std::string& name, const std::string& host);
    std::string millis(const std::optional<Instant>& instant) const;
    std::string millis(Instant instant) const;

    sys::TempDir dir_{"scenario"};
    store::Db db_;
    engine::FakeEngine engine_;
    test::FakeClock clock_;
    SystemIds ids_;
    const Instant start_ = clock_.now();
    jobs::Placing placing_;
    std::unique_ptr<jobs::JobService> service_;
    std::map<std::string, std::vector<plan::Event>> told_;  // "ATTEMPT NODE" -> its events
    std::map<std::string, AttemptId> attempts_;             // NAME -> its latest known attempt
    std::string error_;
    Words words_;
};

}  // namespace ty::scenario
