# SPDX-License-Identifier: Apache-2.0
"""Failures, their causes and budgets, hangs, signals, and what is left behind, with real processes."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import nodes
from nodes import HOST, JobTest, children, is_alive, until


class Failures(JobTest):
    def test_a_killed_worker_ends_the_generation_on_both_nodes_and_the_next_one_begins(self):
        first, second = self.job.start_many(2, 2, "--max-restarts", 1)
        before = self.job.runs(1, world=2)
        os.kill(before[1]["pid"], signal.SIGKILL)
        after = self.job.runs(2, world=2)
        for rank in (0, 1):
            self.assertFalse(is_alive(before[rank]["pid"]))
            self.assertEqual(after[rank]["env"]["TORCHELASTIC_RESTART_COUNT"], "1")
        self.job.stop()
        self.ends(first, 0)
        self.ends(second, 0)

    def test_the_last_message_names_rank_host_and_cause_on_every_node(self):
        pair = self.job.start_many(2, 2, "--max-restarts", 1, rules=["r1=kill:9"])
        for node in pair:
            self.ends(node, 1)
            self.says(node, f"the job failed: rank 1 (local rank 0 on {HOST}, pid ", "was killed by SIGKILL (signal 9)")

    def test_the_last_message_names_the_host_after_a_restart_of_the_coordinator(self):
        pair = self.job.start_many(2, 2, rules=["r1=fail:7"])
        self.job.runs(1, world=2)
        for pid in pair[0].coordinators() + pair[1].coordinators():
            os.kill(pid, signal.SIGKILL)
        self.job.say_fail()
        for node in pair:
            self.ends(node, 1)
            self.says(node, f"rank 1 (local rank 0 on {HOST}, pid ", "exited with code 7")

    def test_the_host_of_a_lost_node_is_named_after_a_restart_of_the_coordinator(self):
        pair = self.job.start_many(2, 2)
        self.job.runs(1, world=2)
        host = next(node for node in pair if node.coordinators())
        other = next(node for node in pair if node is not host)
        os.kill(host.coordinators()[0], signal.SIGKILL)
        other.kill_machine()
        self.ends(host, 1)
        self.says(host, f"node {HOST} was lost" if "was lost" in host.text() else f"node {HOST} fell silent")
        self.assertNotIn("unnamed", host.text())

    def test_the_echo_of_a_failure_on_another_node_is_not_its_cause(self):
        pair = self.job.start_many(2, 2, "--abort-grace", "2s", "--redirects", 2, rules=["r0=echo:g1.r1", "r1=struck:9"])
        self.job.runs(1)
        self.job.say_fail()
        for node in pair:
            self.ends(node, 1)
            self.says(node, "the job failed: rank 1 ")

    def test_a_cause_reported_after_its_echo_is_still_the_cause(self):
        first = self.job.start("--standalone", "--nproc-per-node", 2, "--redirects", 2,
                               rules=["r0=echo", "r1=late:3:ValueError: the loss is not a number"])
        self.job.appears("ready.g1.r1")
        self.job.say_fail()
        self.ends(first, 1)
        self.says(first, "the job failed: rank 1 ", "exited with code 3: ValueError: the loss is not a number")

    def test_one_generation_after_another_until_the_restarts_are_used_up(self):
        node = self.job.start("--standalone", "--max-restarts", 2, rules=["=exit:9"])
        self.ends(node, 1)
        self.assertEqual(sorted(path.name for path in self.job.out.iterdir()), ["g1.r0.json", "g2.r0.json", "g3.r0.json"])
        self.says(node, "exited with code 9")

    def test_a_full_disk_is_named(self):
        node = self.job.start("--standalone", "--redirects", 2, rules=["=say:1:OSError: [Errno 28] No space left on device"])
        self.ends(node, 1)
        self.says(node, "the disk is full")

    def test_a_stolen_port_is_retried_without_using_up_a_restart(self):
        text = "=say:1:RuntimeError: server socket has failed to bind: EADDRINUSE, Address already in use"
        node = self.job.start("--standalone", "--tee", 2, rules=["g1r0" + text, "g2r0" + text, "=exit:0"])
        self.ends(node, 0)
        ports = {self.job.record(f"g{g}.r0.json")["env"]["MASTER_PORT"] for g in (1, 2, 3)}
        self.assertEqual(len(ports), 3, "another port for every attempt")

    def test_a_port_in_use_is_found_without_a_word_of_the_program(self):
        node = self.job.start("--standalone", rules=["g1=thief", "=exit:0"])
        self.ends(node, 0)
        self.assertEqual(node.events("worker_failed")[0]["kind"], "port_in_use")

    def test_a_port_that_is_always_stolen_ends_the_job_with_its_name(self):
        node = self.job.start("--standalone", rules=["=thief"])
        self.ends(node, 1)
        self.says(node, "MASTER_PORT was in use")
        self.assertEqual(len(list(self.job.out.glob("g*.json"))), 6)

    def test_running_out_of_memory_is_named_where_a_limit_can_be_set(self):
        """In a memory group of the first kind; where there is only the second, the launcher's own group counts."""
        group = pathlib.Path("/sys/fs/cgroup/memory") / self.job.mark
        try:
            group.mkdir()
            self.addCleanup(lambda: until(lambda: nodes.removed(group), "the group is empty"))
            (group / "memory.limit_in_bytes").write_text("30M")
        except OSError as error:
            self.skipTest(f"no memory limit can be set here: {error}")
        eat = f"open('{group}/tasks', 'w').write('0')\nx = b'x' * 200_000_000"
        node = self.job.start("--standalone", program=["/usr/bin/python3", "-S", "-c", eat])
        self.ends(node, 1)
        self.says(node, "was killed by SIGKILL (signal 9): out of memory")


class Codes(JobTest):
    def test_semantic_exit_codes_tell_the_program_from_the_machines(self):
        for flags, program, plain in (((), 1, 1), (("--exit-code-policy", "semantic"), 1, 75)):
            with self.subTest(flags=flags):
                self.ends(self.job.start("--standalone", *flags, rules=["=exit:9"]), program)
                self.job.close()
                self.job.__init__()
                pair = self.job.start_many(2, 2, *flags)
                self.job.runs(1)
                pair[1].kill_machine()
                self.ends(pair[0], plain)
                self.job.close()
                self.job.__init__()

    def test_success_is_0_and_a_wrong_command_line_2(self):
        self.ends(self.job.start("--standalone", "--exit-code-policy", "semantic", rules=["=exit:0"]), 0)
        self.ends(self.job.start("--standalone", "--exit-code-policy", "poetic"), 2)
        self.ends(self.job.start("--nnodes", "3:1"), 2)

    def test_a_signal_is_128_and_its_number_with_semantic_codes(self):
        for policy, code in (("torchrun", 1), ("semantic", 143)):
            node = self.job.start("--standalone", "--exit-code-policy", policy)
            self.job.runs(1)
            node.send(signal.SIGTERM)
            self.ends(node, code)
            self.job.close()
            self.job.__init__()


class Budgets(JobTest):
    def ends_soon(self, nnodes, *flags, with_coordinator=False):
        def attempt():
            pair = self.job.start_many(2, nnodes, *flags)
            self.job.runs(1, world=2)
            pair.sort(key=lambda node: bool(node.coordinators()) == with_coordinator)
            stays, lost = pair
            lost.kill_machine()
            begin = time.monotonic()
            self.ends(stays, 1)
            self.says(stays, f"node {HOST} was lost")
            return time.monotonic() - begin
        self.in_time(attempt, 0.5)

    def test_without_restarts_a_lost_node_ends_a_job_of_two_within_half_a_second(self):
        self.ends_soon(2, "--max-restarts", 0)

    def test_so_does_a_lost_node_that_ran_the_coordinator(self):
        self.ends_soon(2, "--max-restarts", 0, with_coordinator=True)

    def test_an_infrastructure_budget_of_none_ends_the_job_at_the_first_lost_node(self):
        self.ends_soon("1:2", "--max-restarts", 3, "--budget", "infrastructure=0")

    def test_an_infrastructure_budget_of_none_counts_the_coordinators_node_too(self):
        self.ends_soon("1:2", "--max-restarts", 3, "--budget", "infrastructure=0", with_coordinator=True)

    def test_torchruns_counting_gives_lost_nodes_no_budget_of_their_own(self):
        pair = self.job.start_many(2, "1:2", "--max-restarts", 1, "--restart-counting", "torchrun", rules=["g2=exit:5", "g3=exit:6"])
        self.job.runs(1, world=2)
        pair[1].kill_machine()
        # A changed membership is free and does not raise the count; failures of workers do both.
        self.ends(pair[0], 1)
        counts = [self.job.record(f"g{g}.r0.json")["env"]["TORCHELASTIC_RESTART_COUNT"] for g in (1, 2, 3)]
        self.assertEqual(counts, ["0", "0", "1"])
        self.says(pair[0], "exited with code 6")

    def test_a_lost_node_does_not_use_up_the_programs_restarts(self):
        pair = self.job.start_many(2, "1:2", "--max-restarts", 1, rules=["g2=exit:5", "g3=exit:0"])
        self.job.runs(1, world=2)
        pair[1].kill_machine()
        self.ends(pair[0], 0)

    def test_a_second_lost_node_is_one_too_many_for_a_budget_of_one(self):
        trio = self.job.start_many(3, "1:3", "--max-restarts", 3, "--budget", "infrastructure=1")
        self.job.runs(1, world=3)
        trio[2].kill_machine()
        self.job.runs(2, world=2)
        trio[1].kill_machine()
        self.ends(trio[0], 1)
        self.says(trio[0], "was lost")

    def test_a_hang_has_a_budget_of_its_own_when_one_is_given(self):
        node = self.job.start("--standalone", "--max-restarts", 0, "--hang-timeout", "300ms", "--budget", "hang=1",
                              rules=["g1=sleep", "g2=exit:0"])
        self.ends(node, 0)

    def test_a_preemption_budget_of_none_ends_the_job_when_a_node_leaves(self):
        pair = self.job.start_many(2, "1:2", "--max-restarts", 3, "--budget", "preemption=0")
        self.job.runs(1, world=2)
        pair[1].send(signal.SIGUSR1)
        self.ends(pair[0], 1)
        self.says(pair[0], f"node {HOST} leaves: SIGUSR1 received")


class Hangs(JobTest):
    def hangs(self, action):
        node = self.job.start("--standalone", "--hang-timeout", "1", rules=[f"={action}"])
        self.ends(node, 1)
        self.says(node, "made no progress", "stacks in")
        stacks = list(self.job.folder.glob("logs0/**/hang.txt"))
        self.assertEqual(len(stacks), 1, self.job.everything())
        self.assertTrue(stacks[0].read_text().strip())

    def test_a_sleeping_worker_is_a_hang(self):
        self.hangs("sleep")

    def test_a_frozen_worker_is_a_hang(self):
        self.hangs("freeze")

    def test_a_busy_worker_is_none(self):
        node = self.job.start("--standalone", "--hang-timeout", "300ms", rules=["=busy:0.8"])
        self.job.runs(1)
        self.job.stop()
        self.ends(node, 0)

    def test_a_hang_on_one_node_ends_the_generation_on_all(self):
        pair = self.job.start_many(2, 2, "--max-restarts", 1, "--hang-timeout", "1", rules=["g1r0=busy:30", "g1r1=freeze"])
        self.job.runs(1, world=2)
        self.job.runs(2, world=2)
        self.assertIn("generation 1 ends: rank 1 ", pair[0].text() + pair[1].text())
        self.job.stop()
        for node in pair:
            self.ends(node, 0)


class Signals(JobTest):
    def both_ways(self, twice, gap=0.6):
        node = self.job.start("--standalone", "--exit-code-policy", "semantic", "--shutdown-timeout", "20s", rules=["=catch:SIGINT"])
        self.job.appears("ready.g1.r0")
        begin = time.monotonic()
        node.send(signal.SIGINT)
        self.job.appears("SIGINT.g1.r0")
        if twice:
            until(lambda: time.monotonic() - begin > gap, "a moment")
            node.send(signal.SIGINT)
        return node

    def test_one_interrupt_waits_for_a_program_that_catches_it(self):
        node = self.both_ways(twice=False)
        self.job.stop()
        self.ends(node, 130)
        self.says(node, "SIGINT received")

    def test_a_second_interrupt_ends_it_at_once(self):
        node = self.both_ways(twice=True)
        self.assertEqual(node.end(5), 130)

    def test_the_same_signal_twice_in_a_moment_counts_once(self):
        node = self.both_ways(twice=True, gap=0)
        node.event("signal_repeated")
        self.assertTrue(is_alive(self.job.runs(1)[0]["pid"]), "the worker still has its time")
        self.job.stop()
        self.ends(node, 130)


class NoOrphans(JobTest):
    def family(self):
        node = self.job.start("--standalone", "--nproc-per-node", 2, rules=["=daemon"])
        for rank in (0, 1):
            self.job.appears(f"child.g1.r{rank}")
        return node

    def all_gone(self):
        until(lambda: not self.job.left_over(), lambda: f"left: {[nodes.words_of(pid) for pid in self.job.left_over()]}", limit=1)

    def test_nothing_is_left_a_second_after_the_guard_was_killed(self):
        node = self.family()
        os.kill(node.process.pid, signal.SIGKILL)
        self.all_gone()

    def test_nothing_is_left_a_second_after_the_launcher_was_killed(self):
        node = self.family()
        os.kill(node.launcher(), signal.SIGKILL)
        self.all_gone()
        self.ends(node, 1)

    def test_the_next_launcher_cleans_up_after_guard_and_launcher_were_killed_together(self):
        node = self.family()
        launcher = node.launcher()
        workers = [record["pid"] for record in self.job.runs(1)]
        for pid in (node.process.pid, launcher):
            os.kill(pid, signal.SIGKILL)
        node.process.wait()
        until(lambda: not any(map(is_alive, workers)), "the workers are gone", limit=1)
        if "trainyard-" not in self.job.runs(1)[0]["cgroup"]:
            self.skipTest("daemonised grandchildren are found by cgroup only, and none can be made here")
        self.ends(self.job.start("--standalone", program=["/bin/true"]), 0)
        self.all_gone()

    def test_nothing_is_left_after_success_and_failure(self):
        node = self.family()
        self.job.stop()
        self.ends(node, 0)
        self.all_gone()


class Agreement(JobTest):
    def test_a_node_with_another_idea_of_the_jobs_size_is_refused(self):
        pair = self.job.start_many(2, 2)
        self.job.runs(1)
        stranger = self.job.join(3)
        self.ends(stranger, 1)
        self.says(stranger, "started for 3:3 nodes, the job here is for 2:2")
        self.job.stop()
        for node in pair:
            self.ends(node, 0)

    def test_a_wrong_token_is_refused_with_the_remedy(self):
        first = self.job.join(2)
        until(first.coordinators, "a coordinator")
        stranger = self.job.join(2, env={"TRAINYARD_RDZV_TOKEN": "another"})
        self.ends(stranger, 1)
        self.says(stranger, "token", "TRAINYARD_RDZV_TOKEN")

    def test_node_ranks_order_the_nodes_and_survivors_keep_their_order(self):
        marks = [self.job.join("2:3", "--node-rank", rank, "--max-restarts", 3, env={"PLACE": str(rank)}) for rank in (2, 0, 1)]
        places = [record["env"]["PLACE"] for record in self.job.runs(1, world=3)]
        self.assertEqual(places, ["0", "1", "2"])
        marks[1].kill_machine()  # node rank 0
        self.assertEqual([record["env"]["PLACE"] for record in self.job.runs(2, world=2)], ["1", "2"])
        self.job.join("2:3", "--node-rank", 0, "--max-restarts", 3, env={"PLACE": "0"})
        self.assertEqual([record["env"]["PLACE"] for record in self.job.runs(3, world=3)], ["0", "1", "2"])
        self.job.stop()
        for node in (marks[0], marks[2], self.job.nodes[-1]):
            self.ends(node, 0)


class Watching(JobTest):
    def test_events_are_lines_of_json_with_time_name_run_and_node(self):
        node = self.job.start("--standalone", "--rdzv-id", "exp7", "--max-restarts", 1, rules=["g1=exit:3", "=exit:0"])
        self.ends(node, 0)
        events = node.events()
        for event in events:
            self.assertLessEqual({"time", "event", "run_id", "node"}, event.keys())
        names = [event["event"] for event in events]
        for name in ("launcher_started", "generation_started", "worker_ended", "worker_failed", "abort", "started",
                     "workers_succeeded", "over", "launcher_ended"):
            self.assertIn(name, names)
        self.assertEqual([event["generation"] for event in node.events("generation_started")], [1, 2])
        self.assertEqual(node.events("worker_failed")[0]["kind"], "exit_code")
        self.assertEqual(events[-1]["exit_code"], 0)

    def test_health_and_metrics_follow_the_job(self):
        port = nodes.free_port()
        node = self.job.start("--standalone", "--max-restarts", 1, "--health-address", f"127.0.0.1:{port}", rules=["g1=fail:1"])
        self.job.runs(1)
        get = lambda path: nodes.http_call(port, "GET", path)
        before = until(lambda: (answer := json.loads(get("/healthz")[1]))["phase"] == "running" and answer, "running")
        self.assertEqual((before["status"], before["generation"], before["workers"]), ("ok", 1, 1))
        self.assertIn('trainyard_launcher_restarts_total{cause="application"} 0', get("/metrics")[1])
        self.job.say_fail()
        self.job.runs(2)
        until(lambda: json.loads(get("/healthz")[1])["generation"] == 2, "generation 2")
        text = get("/metrics")[1]
        self.assertIn("trainyard_launcher_generation 2", text)
        self.assertIn('trainyard_launcher_restarts_total{cause="application"} 1', text)
        self.assertRegex(text, r"trainyard_launcher_last_recovery_seconds 0\.\d+")
        self.assertEqual(get("/nothing")[0], 404)
        self.job.stop()
        self.ends(node, 0)

    def test_explain_prints_and_starts_nothing(self):
        done = subprocess.run([nodes.AGENT, "launch", "--explain", "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                               self.job.endpoint, "--no-python", nodes.MEMBER], capture_output=True, text=True, timeout=nodes.LIMIT,
                              env={"MEMBER_OUT": str(self.job.out), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.job.endpoint, done.stdout)
        self.assertEqual(list(self.job.out.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
