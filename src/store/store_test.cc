// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"
#include "store/migrate.h"
#include "sys/sys.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <latch>
#include <set>
#include <thread>

using namespace ty;
using store::Db;
using store::DbOptions;
using store::Tx;

namespace {

struct Scratch {
    sys::TempDir dir{"store-test"};
    std::filesystem::path file = dir.path() / "state.db";
};

void make_table(Db& db) {
    db.write([](Tx& tx) { tx.execute("create table t (id integer primary key, x text) strict"); });
}

void insert(Tx& tx, std::int64_t id, std::string_view text = "x") {
    tx.prepare("insert into t (id, x) values (?1, ?2)").bind(1, id).bind(2, text).run();
}

std::int64_t count(const Db& db) {
    std::int64_t n = -1;
    db.read([&](Tx& tx) {
        auto row = tx.prepare("select count(*) from t");
        if (row.step()) n = row.integer(0);
    });
    return n;
}

std::string reason_of(const std::function<void()>& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.reason();
    }
    return "no error";
}

}  // namespace

TEST_CASE("values of every type come back as they went in, also after reopening") {
    const Scratch scratch;
    const Instant when = from_epoch_millis(1762116564123);
    const std::string bytes("a\0b\xff", 4);
    {
        Db db(scratch.file);
        db.write([&](Tx& tx) {
            tx.execute(
                "create table v (i integer, r real, t text, b blob, n text, w integer) strict");
            tx.prepare("insert into v values (?1, ?2, ?3, ?4, ?5, ?6)")
                .bind(1, INT64_MIN)
                .bind(2, 0.25)
                .bind(3, "")
                .bind_blob(4, bytes)
                .bind_null(5)
                .bind(6, when)
                .run();
            CHECK(tx.last_row_id() == 1);
        });
    }
    const Db db(scratch.file);
    db.read([&](Tx& tx) {
        auto row = tx.prepare("select * from v");
        REQUIRE(row.step());
        CHECK(row.integer(0) == INT64_MIN);
        CHECK(row.real(1) == 0.25);
        CHECK_FALSE(row.is_null(2));
        CHECK(row.text(2).empty());
        CHECK(row.text(3) == bytes);
        CHECK(row.is_null(4));
        CHECK(row.instant(5) == when);
        CHECK_FALSE(row.step());
    });
}

TEST_CASE("the database file is readable by its owner only") {
    const Scratch scratch;
    Db db(scratch.file);
    make_table(db);
    const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
    for (const char* suffix : {"", "-wal"}) {
        const auto mode = std::filesystem::status(scratch.file.native() + suffix).permissions();
        CHECK((mode & others) == std::filesystem::perms::none);
    }
}

TEST_CASE("a statement asked for while in use is a second one") {
    const Scratch scratch;
    Db db(scratch.file);
    make_table(db);
    db.write([](Tx& tx) {
        for (int i = 1; i <= 3; ++i) insert(tx, i);
        const char* sql = "select id from t where id > ?1 order by id";
        auto outer = tx.prepare(sql);
        outer.bind(1, 0);
        int pairs = 0;
        while (outer.step()) {
            auto inner = tx.prepare(sql);
            inner.bind(1, outer.integer(0));
            while (inner.step()) ++pairs;
        }
        CHECK(pairs == 3);
    });
}

TEST_CASE("a failing closure leaves nothing and its exception reaches its caller") {
    const Scratch scratch;
    Db db(scratch.file);
    make_table(db);
    CHECK_THROWS_WITH_AS(db.write([](Tx& tx) {
        insert(tx, 1);
        throw_error(Code::conflict, "Mine", "no");
    }),
                         "no", Error);
    CHECK(count(db) == 0);
    db.write([](Tx& tx) { insert(tx, 1); });
    CHECK(reason_of([&] { db.write([](Tx& tx) { insert(tx, 1); }); }) == "UniqueConstraint");
    CHECK(count(db) == 1);
}

TEST_CASE("in a shared commit only the failing closures are undone") {
    const Scratch scratch;
    Db db(scratch.file, {.durability = DbOptions::Durability::normal});
    make_table(db);
    constexpr int kThreads = 8, kRounds = 100;
    std::atomic<int> refused = 0;
    {
        std::latch start(kThreads);
        std::vector<std::jthread> threads;
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] {
                start.arrive_and_wait();
                for (int i = 0; i < kRounds; ++i) {
                    const int id = t * kRounds + i;
                    try {
                        db.write([&](Tx& tx) {
                            insert(tx, id);
                            if (id % 3 == 0) throw_error(Code::invalid, "Third", "{}", id);
                        });
                    } catch (Error& error) {
                        if (error.message() == std::to_string(id)) ++refused;
                        error.add_context("touched by its own thread only");
                    }
                }
            });
    }
    CHECK(refused == (kThreads * kRounds + 2) / 3);
    CHECK(count(db) == kThreads * kRounds - refused);
    db.read([](Tx& tx) {
        auto row = tx.prepare("select count(*) from t where id % 3 = 0");
        REQUIRE(row.step());
        CHECK(row.integer(0) == 0);
    });
}

TEST_CASE("a reader sees one snapshot while writers go on") {
    const Scratch scratch;
    Db db(scratch.file, {.durability = DbOptions::Durability::normal, .readers = 2});
    make_table(db);
    std::atomic<bool> stop = false;
    // Every write adds two rows: an odd count would be half a transaction.
    std::jthread writer([&] {
        for (int i = 0; !stop; i += 2)
            db.write([&](Tx& tx) {
                insert(tx, i);
                insert(tx, i + 1);
            });
    });
    int torn = 0, moved = 0;
    for (int i = 0; i < 200; ++i)
        db.read([&](Tx& tx) {
            std::int64_t seen[2];
            for (auto& n : seen) {
                auto row = tx.prepare("select count(*) from t");
                row.step();
                n = row.integer(0);
            }
            torn += static_cast<int>(seen[0] % 2);
            moved += seen[0] != seen[1];
        });
    stop = true;
    writer.join();
    CHECK(torn == 0);
    CHECK(moved == 0);
}

TEST_CASE("more readers than connections take turns, and a failing reader gives its place back") {
    const Scratch scratch;
    Db db(scratch.file, {.readers = 2});
    make_table(db);
    std::atomic<int> done = 0;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 6; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < 50; ++i) {
                    try {
                        db.read([&](Tx& tx) {
                            tx.prepare("select * from t").step();
                            if (i % 2 == 0) throw_error(Code::invalid, "", "oops");
                        });
                    } catch (const Error&) {
                    }
                    ++done;
                }
            });
    }
    CHECK(done == 300);
    CHECK(count(db) == 0);
}

TEST_CASE("a reader cannot write") {
    const Scratch scratch;
    Db db(scratch.file);
    make_table(db);
    CHECK(reason_of([&] { db.read([](Tx& tx) { insert(tx, 1); }); }) == "DatabaseDenied");
}

TEST_CASE("a full disk is exhausted DiskFull, loses nothing committed, and ends with the room") {
    const Scratch scratch;
    Db db(scratch.file);
    make_table(db);
    db.write([](Tx& tx) { insert(tx, 1); });
    db.write([](Tx& tx) { tx.prepare("pragma max_page_count = 1").step(); });
    const std::string big(1 << 20, 'x');
    CHECK(reason_of([&] { db.write([&](Tx& tx) { insert(tx, 2, big); }); }) == "DiskFull");
    SUBCASE("a closure that swallows the error does not get away with it") {
        CHECK(reason_of([&] {
                  db.write([&](Tx& tx) {
                      try {
                          insert(tx, 2, big);
                      } catch (const Error&) {
                      }
                  });
              }) != "");
    }
    CHECK(count(db) == 1);
    db.write([](Tx& tx) { tx.prepare("pragma max_page_count = 100000").step(); });
    db.write([&](Tx& tx) { insert(tx, 2, big); });
    CHECK(count(db) == 2);
}

TEST_CASE("in a group that meets a full disk nobody is told of success") {
    const Scratch scratch;
    Db db(scratch.file, {.durability = DbOptions::Durability::normal});
    make_table(db);
    db.write([](Tx& tx) { tx.prepare("pragma max_page_count = 40").step(); });
    std::atomic<int> kept = 0;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([&, t] {
                for (int i = 0; i < 20; ++i) {
                    try {
                        db.write([&](Tx& tx) { insert(tx, t * 100 + i, std::string(3000, 'x')); });
                        ++kept;
                    } catch (const Error&) {
                    }
                }
            });
    }
    CHECK(kept > 0);
    CHECK(kept < 160);
    CHECK(count(db) == kept);
}

TEST_CASE("migrations run once each, in order, and a newer database is refused") {
    const Scratch scratch;
    const store::MigrationFile first{"0001_a.sql", "create table a (x integer) strict;"};
    const store::MigrationFile second{"0002_b.sql",
                                      "create table b (x integer) strict;"
                                      "insert into a values (2);"};
    const store::MigrationFile broken{"0003_c.sql", "create table c (x integer); nonsense;"};
    {
        store::Connection connection(scratch.file, store::Connection::Mode::read_write);
        store::migrate(connection, {&first, 1});
        const store::MigrationFile both[] = {first, second};
        store::migrate(connection, both);
        store::migrate(connection, both);
        auto row = connection.prepare("select count(*) from a");
        row.step();
        CHECK(row.integer(0) == 1);
    }
    store::Connection connection(scratch.file, store::Connection::Mode::read_write);
    const store::MigrationFile all[] = {first, second, broken};
    CHECK_THROWS_AS(store::migrate(connection, all), Error);
    CHECK_THROWS_AS(connection.prepare("select * from c"), Error);  // nothing of it stayed
    CHECK(reason_of([&] { store::migrate(connection, {&first, 1}); }) == "DatabaseTooNew");
}

TEST_CASE("the program's own migrations apply to a fresh file and are all recorded") {
    const Scratch scratch;
    const Db db(scratch.file);
    db.read([](Tx& tx) {
        auto row = tx.prepare("select count(*) from schema_migrations");
        REQUIRE(row.step());
        CHECK(static_cast<std::size_t>(row.integer(0)) == store::embedded_migrations().size());
    });
}

TEST_CASE("what is not a database is refused as corrupt, a missing folder as not found") {
    const Scratch scratch;
    sys::write_file(scratch.file, std::string(8192, 'z'));
    CHECK(reason_of([&] { const Db db(scratch.file); }) == "DatabaseCorrupt");
    CHECK_THROWS_AS(Db(scratch.dir.path() / "no" / "x.db"), Error);
}

TEST_CASE("rows acknowledged before SIGKILL are there after reopening") {
    const Scratch scratch;
    {
        Db db(scratch.file);
        make_table(db);
    }
    std::set<std::int64_t> acknowledged;
    std::int64_t base = 0;
    for (int round = 0; round < 10; ++round) {
        sys::Pipe pipe = sys::make_pipe();
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            Db db(scratch.file);
            std::vector<std::jthread> threads;
            for (std::int64_t t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    for (std::int64_t id = base + t;; id += 4) {
                        db.write([&](Tx& tx) { insert(tx, id); });
                        if (::write(pipe.write.get(), &id, sizeof id) != sizeof id) ::_exit(1);
                    }
                });
            threads.clear();
            ::_exit(0);
        }
        pipe.write.close();
        // Die at a different place each time: after so many acknowledgements, wherever the rest is.
        for (int left = 20 + 7 * round; left > 0; --left) {
            std::int64_t id = 0;
            REQUIRE(sys::read_some(pipe.read.get(), std::as_writable_bytes(std::span(&id, 1))) ==
                    sizeof id);
            acknowledged.insert(id);
            base = std::max(base, id + 100);
        }
        ::kill(child, SIGKILL);
        std::int64_t id = 0;
        while (sys::read_some(pipe.read.get(), std::as_writable_bytes(std::span(&id, 1))) ==
               sizeof id) {
            acknowledged.insert(id);
            base = std::max(base, id + 100);
        }
        ::waitpid(child, nullptr, 0);
        const Db db(scratch.file);
        std::set<std::int64_t> stored;
        db.read([&](Tx& tx) {
            auto rows = tx.prepare("select id from t");
            while (rows.step()) stored.insert(rows.integer(0));
        });
        CHECK(
            std::includes(stored.begin(), stored.end(), acknowledged.begin(), acknowledged.end()));
    }
}
