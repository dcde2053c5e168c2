# SPDX-License-Identifier: Apache-2.0
"""Announced departures and arrivals with real processes: who is asked, what counts, who goes on."""

import datetime
import http.server
import json
import os
import signal
import threading
import time
import unittest

import nodes
from nodes import JobTest, until

SEMANTIC = ("--exit-code-policy", "semantic")


def iso(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class LeavingTest(JobTest):
    def two(self, *flags, rules=("g1=answer",), env=None, with_checkpoints=True):
        """Two nodes in generation 1: (who has rank 0, who has rank 1)."""
        folder = ("--checkpoint-dir", self.job.checkpoints) if with_checkpoints else ()
        first = self.job.join("1:2", "--node-rank", 0, *SEMANTIC, *folder, rules=rules, env=env)
        second = self.job.join("1:2", "--node-rank", 1, *SEMANTIC, *folder, *flags, rules=rules, env=env)
        self.job.runs(1, world=2)
        return first, second

    def one_goes_on(self, stays, leaves, why=""):
        """The next generation has one node; the other one has left with the code for it."""
        self.job.runs(2, world=1)
        self.ends(leaves, 143)
        self.says(leaves, "this node has left the job: " + why)
        self.job.stop()
        self.ends(stays, 0)


class Departures(LeavingTest):
    def test_a_node_that_gets_sigterm_leaves_after_a_checkpoint_and_the_other_goes_on(self):
        stays, leaves = self.two()
        leaves.send(signal.SIGTERM)
        self.one_goes_on(stays, leaves, "SIGTERM received")
        self.assertTrue(any(self.job.checkpoints.glob("g1.*.pt")))

    def test_the_node_of_rank_0_may_leave_too(self):
        leaves, stays = self.two()
        leaves.send(signal.SIGUSR1)
        self.one_goes_on(stays, leaves, "SIGUSR1 received")

    def test_the_request_is_json_with_generation_and_deadline_on_every_node(self):
        stays, leaves = self.two("--drain-timeout", "10s", rules=("g1r0=answer", "g1r1=look"))
        leaves.send(signal.SIGUSR1)
        request = json.loads(self.job.appears("request.g1.r0"))
        self.assertEqual(request["generation"], 1)
        self.assertTrue(8 < request["deadline_seconds"] <= 10, request)
        self.assertIn("SIGUSR1", request["why"])
        self.one_goes_on(stays, leaves)

    def test_the_removed_request_file_says_saved(self):
        stays, leaves = self.two(rules=("g1r0=saved", "g1r1=look"), with_checkpoints=False)
        leaves.send(signal.SIGUSR1)
        self.job.runs(2, world=1)
        self.ends(leaves, 143)
        self.job.stop()
        self.ends(stays, 0)

    def test_the_signal_reaches_a_worker_that_catches_it_and_spares_one_that_does_not(self):
        stays, leaves = self.two("--drain-timeout", "20s", rules=("g1r0=catch:SIGUSR1", "g1r1=look"))
        self.job.appears("ready.g1.r0")
        leaves.send(signal.SIGUSR1)
        self.job.appears("SIGUSR1.g1.r0")
        self.job.appears("request.g1.r1")
        leaves.event("checkpoint_asked")
        self.assertEqual(leaves.events("worker_ended"), [])
        (self.job.checkpoints / "by_hand.pt").write_text("weights")
        self.one_goes_on(stays, leaves)

    def test_nobody_waits_for_a_checkpoint_that_nothing_would_show(self):
        stays, leaves = self.two("--drain-timeout", "60s", rules=(), with_checkpoints=False)
        begin = time.monotonic()
        leaves.send(signal.SIGUSR1)
        self.job.runs(2, world=1)
        self.assertLess(time.monotonic() - begin, 5)
        self.one_goes_on(stays, leaves)

    def test_without_evidence_the_deadline_decides(self):
        stays, leaves = self.two("--drain-timeout", "700ms", rules=())
        begin = time.monotonic()
        leaves.send(signal.SIGUSR1)
        self.job.runs(2, world=1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.65)
        self.one_goes_on(stays, leaves)

    def test_an_interrupted_node_leaves_at_once_and_the_other_goes_on(self):
        stays, leaves = self.two("--drain-timeout", "60s", rules=())
        leaves.send(signal.SIGINT)
        self.job.runs(2, world=1)
        self.ends(leaves, 130)
        self.assertNotIn("no checkpoint", stays.text())
        self.job.stop()
        self.ends(stays, 0)

    def test_when_every_node_leaves_the_job_is_drained_on_all(self):
        pair = self.two()
        for node in pair:
            node.send(signal.SIGTERM)
        for node in pair:
            self.ends(node, 143)

    def test_one_node_with_a_checkpoint_folder_saves_before_it_leaves(self):
        node = self.job.start("--standalone", *SEMANTIC, "--checkpoint-dir", self.job.checkpoints, rules=["=answer"])
        self.job.runs(1)
        node.send(signal.SIGTERM)
        self.ends(node, 143)
        self.assertTrue((self.job.checkpoints / "g1.r0.pt").exists())

    def test_a_leaving_node_whose_coordinator_is_killed_still_leaves(self):
        stays, leaves = self.two("--drain-timeout", "1s", rules=())
        leaves.send(signal.SIGUSR1)
        leaves.event("checkpoint_asked")
        for pid in stays.coordinators() + leaves.coordinators():
            os.kill(pid, signal.SIGKILL)
        self.one_goes_on(stays, leaves)


class Notices(LeavingTest):
    def test_a_post_to_drain_names_the_grace(self):
        port = nodes.free_port()
        stays, leaves = self.two("--health-address", f"127.0.0.1:{port}")
        self.assertEqual(nodes.http_call(port, "POST", "/drain?grace=soon")[0], 400)
        status, body = nodes.http_call(port, "POST", "/drain?grace=30")
        self.assertEqual((status, json.loads(body)["grace_seconds"]), (202, 30.0))
        self.assertEqual(leaves.event("leaving")["grace_ms"], 30000)
        self.one_goes_on(stays, leaves, "POST /drain")

    def test_a_notice_file_may_be_empty_or_hold_seconds_or_json(self):
        for text, low, high in (("", 120000, 120000), ("25\n", 25000, 25000), (json.dumps({"time": iso(40)}), 30000, 41000)):
            with self.subTest(text=text):
                notice = self.job.folder / "preempt"
                stays, leaves = self.two("--notice-file", notice)
                notice.write_text(text)
                grace = leaves.event("leaving")["grace_ms"]
                self.assertTrue(low <= grace <= high, grace)
                self.one_goes_on(stays, leaves, "notice file ")
                self.job.close()
                self.job.__init__()

    def test_a_notice_url_is_asked_until_it_says_so(self):
        answers = []

        class Metadata(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answers.append(self.path)
                text = json.dumps({"action": "terminate", "time": iso(50)}).encode() if job.out.joinpath("take").exists() else b""
                self.send_response(200 if text else 404)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        job = self.job
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        stays, leaves = self.two("--notice-url", f"http://127.0.0.1:{server.server_port}/spot/instance-action")
        until(lambda: answers, "the address is asked")
        self.assertEqual(leaves.events("leaving"), [])
        (job.out / "take").touch()
        self.assertTrue(30000 < leaves.event("leaving")["grace_ms"] <= 50000)
        self.one_goes_on(stays, leaves, "notice ")
        self.assertEqual(set(answers), {"/spot/instance-action"})

    def test_an_end_time_is_a_notice_ahead_of_itself(self):
        stays, leaves = self.two("--end-time", iso(31), "--drain-before", "30s")
        self.assertTrue(25000 < leaves.event("leaving")["grace_ms"] <= 31000, leaves.events("leaving"))
        self.one_goes_on(stays, leaves, "end time ")


class Arrivals(LeavingTest):
    def alone(self, *flags, nnodes="1:2", count=1, rules=()):
        self.flags, self.nnodes = flags, nnodes
        started = self.job.start_many(count, nnodes, *flags, rules=rules)
        self.job.runs(1, world=count)
        return started

    def newcomer(self):
        return self.job.join(self.nnodes, *self.flags)

    def all_end_well(self):
        self.job.stop()
        for node in self.job.nodes:
            if node.process.poll() is None:
                self.ends(node, 0)

    def test_a_newcomer_is_taken_in_at_once_without_a_checkpoint_folder(self):
        self.alone()
        self.newcomer()
        self.job.runs(2, world=2)
        self.all_end_well()

    def test_a_newcomer_waits_for_a_checkpoint_when_there_is_a_folder_for_it(self):
        first, = self.alone("--checkpoint-dir", self.job.checkpoints)
        self.newcomer()
        first.event("checkpoint_asked")
        self.assertIsNone(self.job.record("g2.r0.json"))
        (self.job.checkpoints / "step.tmp").write_text("weights")
        (self.job.checkpoints / "step.tmp").rename(self.job.checkpoints / "step.pt")
        records = self.job.runs(2, world=2)
        self.assertEqual(first.events("checkpoint_seen")[0]["what"], str(self.job.checkpoints / "step.pt"))
        self.assertEqual(records[0]["env"]["NODE_MARK"], first.job.mark + ".0.")
        self.all_end_well()

    def test_resize_now_does_not_wait_for_a_checkpoint(self):
        self.alone("--checkpoint-dir", self.job.checkpoints, "--resize", "now")
        self.newcomer()
        self.job.runs(2, world=2)
        self.all_end_well()

    def test_resize_never_leaves_a_newcomer_waiting(self):
        first, = self.alone("--resize", "never")
        late = self.newcomer()
        first.event("newcomer")
        until(lambda: "waiting at" in late.text(), "the newcomer says that it waits")
        self.assertIsNone(self.job.record("g2.r0.json"))
        self.all_end_well()

    def test_a_spare_node_fills_the_hole_that_a_lost_one_leaves(self):
        pair = self.alone("--max-restarts", 1, nnodes=2, count=2)
        spare = self.newcomer()
        until(lambda: any(node.events("newcomer") for node in pair), "the spare is known")
        records = self.job.runs(1)
        lost = next(node for node in pair if not node.coordinators())
        rank = next(i for i, record in enumerate(records) if record["env"]["NODE_MARK"] == f"{self.job.mark}.{lost.index}.")
        lost.kill_machine()
        after = self.job.runs(2, world=2)
        self.assertEqual(after[rank]["env"]["NODE_MARK"], f"{self.job.mark}.{spare.index}.")
        self.all_end_well()

    def test_a_resize_budget_of_none_keeps_the_size(self):
        first, = self.alone("--budget", "resize=0", "--max-restarts", 1)
        late = self.newcomer()
        first.event("newcomer")
        until(lambda: "waiting at" in late.text(), "the newcomer says that it waits")
        self.assertIsNone(self.job.record("g2.r0.json"))
        self.all_end_well()


if __name__ == "__main__":
    unittest.main()
