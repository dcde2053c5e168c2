# SPDX-License-Identifier: Apache-2.0
"""A launcher as the program of an elastic job's box, with a coordinator of its own and agents that are told what to answer."""

import os
import pathlib
import signal
import subprocess
import threading
import time

from nodes import AGENT, JobTest, is_alive, until
from outside import Agent, Coordinator


def after(seconds, answer="ok"):
    def slowly():
        time.sleep(seconds)
        return answer
    return slowly


class ElasticTest(JobTest):
    def begin(self, nodes, expected=0, restarts=3):
        self.size = nodes
        self.coordinator = Coordinator(self.job, nodes, expected, restarts)
        self.addCleanup(self.coordinator.close)

    def join(self, slot, *flags, rules=(), env=None):
        agent = Agent(self.job, len(self.job.nodes))
        self.addCleanup(agent.close)
        variables = {"TRAINYARD_ELASTIC_NODES": self.size, "TRAINYARD_RDZV_ENDPOINT": self.job.endpoint, "TRAINYARD_RDZV_ID": self.job.mark,
                     "TRAINYARD_NODE_SLOT": str(slot), "TRAINYARD_NODE_SOCKET": agent.path,
                     "TRAINYARD_CHECKPOINT_DIR": str(self.job.checkpoints), **(env or {})}
        node = self.job.start(*flags, rules=rules, env=variables)
        node.agent = agent
        return node

    def join_many(self, count, nodes="1:4", **how):
        self.begin(nodes, expected=count)
        joined = [self.join(slot, **how) for slot in range(count)]
        self.job.runs(1, world=count)
        return joined

    def finish(self, *nodes):
        self.job.stop()
        for node in nodes:
            self.ends(node, 0)

    def nobody_was_missed(self):
        for what in ("lost", "silent", "disconnected"):
            self.assertEqual(self.coordinator.all(what), [], what)


class Membership(ElasticTest):
    def test_the_variables_decide_and_the_agent_hears_every_turn(self):
        self.begin("1:2", expected=1)
        node = self.join(0, "--nnodes", 3, "--node-rank", 2, "--nproc-per-node", 2)
        env = self.job.runs(1, world=2)[0]["env"]
        self.says(node, "launched as an elastic job: --nnodes 3 becomes 1:2, --node-rank 2 becomes 0\n")
        self.assertEqual(env["TRAINYARD_CHECKPOINT_DIR"], str(self.job.checkpoints))
        for name in ("TRAINYARD_ELASTIC_NODES", "TRAINYARD_RDZV_TOKEN", "TRAINYARD_NODE_SOCKET"):
            self.assertNotIn(name, env)
        self.finish(node)
        self.assertEqual(node.agent.said(), ["starting 1 1 0", "running 1 1", "ended 1 succeeded", "stopped 1"])

    def test_a_node_that_comes_after_the_end_hears_how_it_ended(self):
        [node] = self.join_many(1)
        self.finish(node)
        self.ends(self.join(1), 0)

    def test_a_node_with_another_size_or_token_is_a_matter_of_configuration(self):
        self.begin("1:2")
        size = self.join(0, env={"TRAINYARD_ELASTIC_NODES": "1:3"})
        token = self.join(0, env={"TRAINYARD_RDZV_TOKEN": "another"})
        self.ends(size, 78)
        self.says(size, "the job does not take this node: this node was started for 1:3 nodes, the job here is for 1:2")
        self.ends(token, 78)

    def test_without_its_agent_a_node_does_not_begin(self):
        self.begin("1:2")
        node = self.join(0, env={"TRAINYARD_NODE_SOCKET": "/nowhere/agent"})
        self.ends(node, 75)
        self.says(node, "/nowhere/agent")

    def test_the_program_is_torchrun_if_it_is_called_so(self):
        torchrun = self.job.folder / "torchrun"
        torchrun.symlink_to(pathlib.Path(AGENT).resolve())
        answer = subprocess.run([torchrun, "--nnodes", "0", "x"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--nnodes", answer.stderr)


class Leaving(ElasticTest):
    def test_a_node_told_to_leave_takes_a_checkpoint_and_no_step_is_lost(self):
        leaves, stays = self.join_many(2, rules=("=train",))
        until(lambda: (self.job.out / "steps").stat().st_size > 100, "some steps")
        leaves.agent.leave(15, "the machine is needed")
        self.ends(leaves, 143)
        self.says(leaves, "this node has left the job: the machine is needed")
        self.job.runs(2, world=1)
        saved = int((self.job.checkpoints / "last.pt").read_text())
        until(lambda: "\n2 " in (self.job.out / "steps").read_text(), "steps of generation 2")
        steps = [tuple(map(int, line.split())) for line in (self.job.out / "steps").read_text().splitlines()]
        self.assertEqual([step for generation, step in steps if generation == 1], list(range(1, saved + 1)))
        self.assertEqual([step for generation, step in steps if generation == 2][0], saved + 1)
        # Nobody starts before everybody's checkpoints are safe.
        for node in (leaves, stays):
            self.assertLess(node.agent.when("stopped 1"), stays.agent.when("starting 2 1 0"))
        self.assertIn("ended 1 preemption", leaves.agent.said())
        self.finish(stays)

    def test_when_all_have_left_the_job_goes_on_with_those_who_come(self):
        pair = self.join_many(2, rules=("g1=answer",))
        for node in pair:
            node.agent.leave(10, "notice")
        for node in pair:
            self.ends(node, 143)
        late = self.join(0)
        self.job.runs(2, world=1)
        self.finish(late)

    def test_sigterm_on_every_node_leaves_the_programs_their_grace(self):
        pair = self.join_many(2, rules=("r0=catch:SIGTERM", "r1=catch:SIGTERM"))
        for rank in (0, 1):
            self.job.appears(f"ready.g1.r{rank}")
        for node in pair:
            node.send(signal.SIGTERM)
        for rank in (0, 1):
            self.job.appears(f"SIGTERM.g1.r{rank}")
        self.job.stop()
        for node in pair:
            self.ends(node, 143)
            self.assertIn("stopped 1", node.agent.said())

    def test_a_node_whose_agent_is_gone_ends_with_its_workers(self):
        first, second = self.join_many(2)
        worker = self.job.record("g1.r1.json")["pid"]
        second.agent.close()
        self.ends(second, 75)
        self.assertFalse(is_alive(worker))
        self.says(second, "the agent of this node is gone")
        self.job.runs(2, world=1)
        self.finish(first)


class Checkpoints(ElasticTest):
    def test_a_flush_of_5_seconds_is_waited_for_and_nobody_is_missed(self):
        slow, failing = self.join_many(2, rules=("g1r1=fail:1",))
        slow.agent.answers["stopped"] = [after(5)]
        begin = time.monotonic()
        self.job.say_fail()
        self.job.runs(2, world=2)
        self.assertGreater(time.monotonic() - begin, 4.9)
        for node in (slow, failing):
            self.assertGreater(node.agent.when("running 2 2") - slow.agent.when("stopped 1"), 4.9)
        self.assertIn("ended 1 application", slow.agent.said())
        self.nobody_was_missed()
        self.finish(slow, failing)

    def test_a_restore_of_5_seconds_is_waited_for_and_nobody_is_missed(self):
        self.begin("1:2", expected=1)
        node = self.join(0)
        node.agent.answers["starting"] = [after(5)]
        self.job.runs(1, world=1)
        self.assertGreater(node.agent.when("running 1 1") - node.agent.when("starting 1 1 0"), 4.9)
        self.nobody_was_missed()
        self.finish(node)

    def test_a_failed_restore_is_tried_again_with_the_next_generation(self):
        self.begin("1:2", expected=2)
        first, second = self.join(0), self.join(1)
        second.agent.answers["starting"] = [lambda: "failed the bucket does not answer"]
        self.job.runs(2, world=2)
        self.says(first, "could not be prepared: the bucket does not answer")
        self.assertEqual(self.coordinator.note("abort")["cause"], "infrastructure")
        self.assertNotIn("stopped 1", second.agent.said())
        self.finish(first, second)

    def test_a_node_that_cannot_restore_three_times_goes_and_the_job_stays(self):
        self.begin("1:2", expected=2)
        first, second = self.join(0), self.join(1)
        second.agent.answers["starting"] = [lambda: "failed no room"] * 3
        self.ends(second, 75)
        self.job.runs(4, world=1)
        self.finish(first)

    def test_a_start_that_is_called_off_while_the_agent_restores_starts_nothing(self):
        self.begin("1:2", expected=2)
        first = self.join(0, rules=("g1=fail:1",))
        second = self.join(1)
        gate = threading.Event()
        second.agent.answers["starting"] = [lambda: "ok" if gate.wait(20) else "failed too late"]
        self.job.appears("g1.r0.json")
        self.job.say_fail()
        # Called off, stopped on both, started anew; the agent is still busy with the first question.
        self.coordinator.note("started", 2)
        gate.set()
        self.job.runs(2, world=2)
        self.assertFalse((self.job.out / "g1.r1.json").exists())
        self.assertEqual(second.agent.said(), ["starting 1 2 1", "starting 2 2 1", "running 2 2"])
        self.finish(first, second)


class Coming(ElasticTest):
    def test_the_coordinator_may_be_killed_again_and_again(self):
        first, second = self.join_many(2)
        pids = [self.job.record(f"g1.r{rank}.json")["pid"] for rank in (0, 1)]
        for _ in range(3):
            self.coordinator.kill()
        third = self.join(2)
        self.job.runs(2, world=3)
        self.assertEqual(self.coordinator.all("abort")[0]["cause"], "resize")
        self.assertEqual(len(self.coordinator.all("started")), 2)
        self.assertFalse(any(map(is_alive, pids)))
        self.finish(first, second, third)

    def test_a_network_without_a_coordinator_for_a_while_is_waited_out(self):
        self.begin("1:2", expected=1)
        node = self.join(0)
        self.job.runs(1, world=1)
        self.coordinator.close()
        self.says_in_time(node, "stopped the workers of generation 1")
        self.begin("1:2", expected=1)  # without memory: it learns from the node what there has been
        self.job.runs(2, world=1)
        self.finish(node)

    def test_a_frozen_node_stops_settles_and_comes_back(self):
        first, second = self.join_many(2)
        frozen = second.launcher()
        os.kill(frozen, signal.SIGSTOP)
        self.job.runs(2, world=1)
        self.assertNotIn("stopped 1", second.agent.said())
        os.kill(frozen, signal.SIGCONT)
        started = until(lambda: [note for note in self.coordinator.all("started") if int(note["generation"]) > 2], "a third generation")[-1]
        self.job.runs(int(started["generation"]), world=2)
        self.assertEqual(second.agent.said()[:5], ["starting 1 2 1", "running 1 2", "ended 1 infrastructure", "stopped 1", f"starting {started['generation']} 2 1"])
        self.finish(first, second)

    def says_in_time(self, node, text):
        until(lambda: text in node.text(), lambda: f"{text}: {node.text()}")

    def test_one_becomes_three_becomes_two(self):
        [first] = self.join_many(1)
        second, third = self.join(1), self.join(2)
        last = until(lambda: [note for note in self.coordinator.all("started") if note["nodes"] == "3"], "three nodes")[-1]
        self.job.runs(int(last["generation"]), world=3)
        third.agent.leave(0.5, "scaled down")
        self.ends(third, 143)
        self.job.runs(int(last["generation"]) + 1, world=2)
        self.finish(first, second)

    def test_a_killed_node_is_replaced_at_its_place(self):
        first, second, third = self.join_many(3)
        second.kill_machine()
        self.job.runs(2, world=2)
        again = self.join(1)
        self.job.runs(3, world=3)
        started = again.event("generation_started")
        self.assertEqual(int(started["group_rank"]), 1)
        self.finish(first, again, third)
