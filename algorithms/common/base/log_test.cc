// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"
#include "common/base/meter.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

using namespace alg;

namespace {

/// What `body` writes to stdout.
template <typename Body>
std::string printed(const Body& body) {
    char name[] = "/tmp/log-test-XXXXXX";
    const int file = ::mkstemp(name);
    ::unlink(name);
    std::fflush(stdout);
    const int saved = ::dup(STDOUT_FILENO);
    ::dup2(file, STDOUT_FILENO);
    body();
    ::dup2(saved, STDOUT_FILENO);
    ::close(saved);
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(::pread(file, text.data(), text.size(), 0)));
    ::close(file);
    return text;
}

}  // namespace

TEST_CASE("a line is a line, whatever the data contain") {
    CHECK(printed([] { say("loss: {:.3f}", 1.5); }) == "loss: 1.500\n");
    CHECK(printed([] { warn("{}", "a\033[2Jb\rc\td"); }) == "warning: a?[2Jb?c\td\n");
}

TEST_CASE("skipped data are shown a few times and counted") {
    SkipLog log(2);
    const std::string text = printed([&log] {
        for (int i = 0; i < 5; ++i)
            log.skip("fields of unequal length", format("a.gz:{}", i), "3 and 4");
        log.skip("labels out of range", "b.gz:9", "label 7");
        log.summarise(10000, "lines");
    });
    CHECK(text ==
          "warning: a.gz:0: 3 and 4\n"
          "warning: a.gz:1: 3 and 4\n"
          "warning: more of \"fields of unequal length\" are counted, not shown\n"
          "warning: b.gz:9: label 7\n"
          "warning: skipped 6 of 10000 lines: 5 fields of unequal length, 1 labels out of range\n");
    CHECK(log.total() == 6);
    CHECK(printed([] { SkipLog().summarise(10, "lines"); }).empty());
}

TEST_CASE("means are weighted and progress knows its end") {
    Mean mean;
    CHECK(mean.value() == 0);
    mean.add(6, 2);
    mean.add(4, 3);
    CHECK(mean.value() == 2);
    Progress progress(100, 1000);
    CHECK(progress.text() == "10 % (100/1000)");  // resumed here: nothing to judge by yet
    progress.at(370);
    CHECK(progress.text().starts_with("37 % (370/1000), 0:00:0"));
    progress.at(1000);
    CHECK(progress.text() == "100 % (1000/1000)");
    CHECK(Progress(0, 0).text() == "100 % (0/0)");
    Rate rate;
    rate.add(10);
    CHECK(rate.take() > 0);
    CHECK(rate.take() == 0);
}
