# SPDX-License-Identifier: Apache-2.0
"""Saving, resuming, being torn apart, and being asked for a checkpoint. Plain Python; with torch: state_torch_test.py."""

import contextlib
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from trainyard import Sampler, State, files, progress, world_size
from trainyard import rank as own_rank

LIMIT = 30


class Counter:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class FolderTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def names(self):
        return sorted(os.listdir(self.folder))

    def file(self, step):
        return pathlib.Path(self.folder) / files.name_of(step)


class Resume(FolderTest):
    def test_everything_comes_back_and_without_a_checkpoint_nothing_changes(self):
        state = State(self.folder, counter=Counter(), sampler=Sampler(10), best=0.5)
        self.assertFalse(state.resume())
        state.counter.count, state.best = 7, 0.75
        next(iter(state.sampler))
        state.save(3)
        state.wait()
        again = State(self.folder, counter=Counter(), sampler=Sampler(10), best=0.5)
        self.assertTrue(again.resume())
        self.assertEqual((again.counter.count, again.best, again.sampler.position, again.step), (7, 0.75, 1, 3))

    def test_the_newest_are_kept_and_nothing_else_lies_about(self):
        state = State(self.folder, keep=2, value=0)
        for step in range(1, 6):
            state.value = step
            state.save(step)
        state.wait()
        self.assertEqual(self.names(), [files.name_of(4), files.name_of(5)])

    def damages(self):
        whole = self.file(2).read_bytes()
        middle = len(whole) // 2
        yield "empty", b""
        for part in (1, middle, len(whole) - 1):
            yield "cut at {}".format(part), whole[:part]
        yield "a bit", whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:]
        yield "hole", whole[:10] + bytes(len(whole) - 20) + whole[-10:]
        yield "longer", whole + b"x"

    def test_torn_and_corrupt_files_are_skipped_for_the_next_older(self):
        state = State(self.folder, value=list(range(1000)), background="off")
        state.save(1)
        state.save(2)
        for what, content in list(self.damages()):
            with self.subTest(what):
                self.file(2).write_bytes(content)
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    self.assertTrue(state.resume())
                self.assertEqual(state.step, 1)
                self.assertIn("step-000000002.ckpt is skipped: ", said.getvalue())

    def test_a_torn_file_of_a_later_step_costs_no_good_one(self):
        self.file(9).write_bytes(b"torn")
        state = State(self.folder, keep=1, value=0, background="off")
        state.save(1)
        state.save(2)
        self.assertEqual(self.names(), [files.name_of(2), files.name_of(9)])

    def test_another_programs_checkpoint_is_refused_and_new_plain_values_keep_theirs(self):
        State(self.folder, value=1, background="off").save(1)
        with self.assertRaisesRegex(ValueError, "step 1 in .* has no counter"):
            State(self.folder, counter=Counter()).resume()
        state = State(self.folder, value=0, fresh=5)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertTrue(state.resume())
        self.assertEqual((state.value, state.fresh), (1, 5))

    def test_names_are_checked(self):
        with self.assertRaisesRegex(ValueError, "save cannot be the name of a value"):
            State(self.folder, save=1)
        state = State(self.folder, value=1)
        with self.assertRaisesRegex(AttributeError, "no value 'valeu'; name it when"):
            state.valeu = 2

    def test_drafts_of_killed_writers_are_removed(self):
        (pathlib.Path(self.folder) / ".step-000000001.ckpt.99.tmp").write_bytes(b"half")
        State(self.folder).resume()
        self.assertEqual(self.names(), [])


class Background(FolderTest):
    def test_what_is_written_is_the_state_at_the_call(self):
        for way in ("fork", "thread", "off"):
            with self.subTest(way):
                state = State(self.folder, background=way, value=list(range(200000)))
                state.save(1)
                for at in range(200000):
                    state.value[at] = -1
                state.wait()
                again = State(self.folder, value=None)
                again.resume()
                self.assertEqual(again.value, list(range(200000)))

    def test_one_is_in_flight_at_most_and_a_second_one_waits(self):
        state = State(self.folder, value=list(range(300000)), every=1)
        state.save(1)
        first = state._writer
        state.save(2)
        self.assertEqual(first.ended(wait=False), "")
        state.wait()
        self.assertEqual(self.names(), [files.name_of(1), files.name_of(2)])

    def test_a_save_that_failed_is_told(self):
        for way in ("fork", "thread"):
            with self.subTest(way):
                state = State(os.path.join("/dev/null", "x"), background=way)
                state.save(1)
                with self.assertRaisesRegex(RuntimeError, "was not written: NotADirectoryError"):
                    state.wait()
                state.save(2)
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    state.save(3)
                self.assertIn("was not written: NotADirectoryError", said.getvalue())
                with self.assertRaises(RuntimeError):
                    state.wait()

    def test_a_values_own_error_in_the_child_is_told(self):
        state = State(self.folder, value=lambda: 0, background="fork")
        state.save(1)
        with self.assertRaisesRegex(RuntimeError, "was not written: .*(pickle|local object)"):
            state.wait()
        self.assertEqual(self.names(), [])

    def test_the_child_holds_none_of_the_trainings_descriptors(self):
        ours, theirs = os.pipe()
        release = os.path.join(self.folder, "release")

        class Slow:  # a value whose writing takes until the test says so
            def __reduce__(self):
                for _ in range(LIMIT * 100):
                    if os.path.exists(release):
                        break
                    time.sleep(0.01)
                return (int, ())

        state = State(self.folder, value=Slow(), background="fork")
        state.save(1)
        os.close(theirs)
        with open(ours, "rb") as file:
            self.assertEqual(file.read(), b"")  # the end, although the child still runs
        self.assertIsNone(state._writer.ended(wait=False))
        pathlib.Path(release).touch()
        state.wait()

    def test_killed_at_any_moment_the_newest_checkpoint_is_whole(self):
        program = (
            "import sys\n"
            "from trainyard import State\n"
            "state = State(sys.argv[1], keep=2, background=sys.argv[2], value=[])\n"
            "state.resume()\n"
            "step = state.step\n"
            "print(step, flush=True)\n"
            "while True:\n"
            "    step += 1\n"
            "    state.value = [step] * 100000\n"
            "    state.save(step)\n"
        )
        dice = random.Random(4)
        reached = 0
        for number in range(15):
            way = ("fork", "off", "thread")[number % 3]
            child = subprocess.Popen([sys.executable, "-c", program, self.folder, way], stdout=subprocess.PIPE, start_new_session=True)
            self.assertGreaterEqual(int(child.stdout.readline()), reached)
            time.sleep(dice.uniform(0, 0.15))  # the random moment this test is about
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            state = State(self.folder, value=[])
            with contextlib.redirect_stderr(io.StringIO()) as said:
                found = state.resume()
            self.assertEqual(said.getvalue(), "", "a kill leaves no torn file under a checkpoint's name")
            if found:
                self.assertEqual(state.value, [state.step] * 100000)
                reached = state.step
        self.assertGreater(reached, 0)


class Asked(FolderTest):
    def test_steps_and_seconds_say_when_it_is_time(self):
        state = State(self.folder, every=10)
        self.assertFalse(state.should_save(9))
        self.assertTrue(state.should_save(10))
        state.save(10)
        state.wait()
        self.assertFalse(state.should_save(19))
        self.assertTrue(state.should_save(20))
        self.assertFalse(State(self.folder, seconds=3600).should_save())
        self.assertTrue(State(self.folder, seconds=1e-9).should_save())
        self.assertFalse(State(self.folder).should_save(10**9))

    def test_a_request_file_is_answered_by_a_durable_checkpoint_and_its_removal(self):
        request = os.path.join(self.folder, "request")
        with mock.patch.dict(os.environ, {"TRAINYARD_CHECKPOINT_REQUEST": request}):
            state = State(os.path.join(self.folder, "c"), value=1, every=100)
        self.assertFalse(state.checkpoint(1))
        pathlib.Path(request).write_text('{"generation": 1}')
        self.assertTrue(state.should_save(2))
        state.save(2)
        self.assertEqual(os.listdir(state.folder), [files.name_of(2)])
        self.assertFalse(os.path.exists(request))
        before = time.monotonic()
        state.leave(patience=0.1)  # nobody ends us: the request was taken back
        self.assertGreaterEqual(time.monotonic() - before, 0.1)
        self.assertFalse(state.should_save(3))
        state.leave()

    def test_sigterm_only_sets_a_flag_and_the_next_checkpoint_ends_the_program(self):
        program = (
            "import os, signal, sys\n"
            "signal.signal(signal.SIGTERM, lambda *_: print('the old handler too', flush=True))\n"
            "from trainyard import State\n"
            "state = State(sys.argv[1], value=0)\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n"
            "for step in range(1, 5):\n"
            "    state.value = step\n"
            "    print('step', step, flush=True)\n"
            "    state.checkpoint(step)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, self.folder], stdout=subprocess.PIPE, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (143, b"the old handler too\nstep 1\n"))
        state = State(self.folder, value=0)
        self.assertTrue(state.resume())
        self.assertEqual(state.value, 1)

    def test_other_ranks_write_nothing(self):
        with mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "2"}):
            state = State(self.folder, every=1, value=0)
            self.assertTrue(state.checkpoint(1))
            self.assertEqual(state.step, 1)
        self.assertEqual(self.names(), [])

    def test_the_end_of_the_program_waits_for_the_last_checkpoint(self):
        program = "import sys\nfrom trainyard import State\nState(sys.argv[1], value=[1] * 10 ** 6).save(1)\n"
        subprocess.run([sys.executable, "-c", program + "state = 0\n", self.folder], check=True, timeout=LIMIT)
        kept = "import sys\nfrom trainyard import State\ns = State(sys.argv[1], value=[1] * 10 ** 6)\ns.save(2)\n"
        subprocess.run([sys.executable, "-c", kept, self.folder], check=True, timeout=LIMIT)
        self.assertIn(files.name_of(2), self.names())


class Environment(FolderTest):
    def test_rank_and_world_size_come_from_torchruns_variables(self):
        with mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "4"}):
            self.assertEqual((own_rank(), world_size()), (3, 4))
        with mock.patch.dict(os.environ):
            os.environ.pop("RANK", None)
            os.environ.pop("WORLD_SIZE", None)
            self.assertEqual((own_rank(), world_size()), (0, 1))

    def test_the_folder_is_the_launchers(self):
        with mock.patch.dict(os.environ, {"TRAINYARD_CHECKPOINT_DIR": self.folder}):
            self.assertEqual(State().folder, self.folder)


class Progress(FolderTest):
    def test_it_is_written_at_most_five_times_a_second_and_the_last_step_always(self):
        path = os.path.join(self.folder, "progress")
        clock = mock.Mock(return_value=time.monotonic() + 1e6)
        with mock.patch.dict(os.environ, {"TRAINYARD_PROGRESS_FILE": path}), mock.patch("trainyard.report.time.monotonic", clock):
            def said():
                return json.loads(pathlib.Path(path).read_text())

            progress(1, 10, "epoch 1")
            self.assertEqual(said(), {"step": 1, "total": 10, "message": "epoch 1"})
            progress(2, 10)
            self.assertEqual(said()["step"], 1)
            clock.return_value += 0.25
            progress(3)
            self.assertEqual(said(), {"step": 3, "total": 0, "message": ""})
            progress(10, 10)
            self.assertEqual(said()["step"], 10)
            self.assertEqual(self.names(), ["progress"])

    def test_elsewhere_and_on_other_ranks_it_does_nothing(self):
        progress(1)
        with mock.patch.dict(os.environ, {"TRAINYARD_PROGRESS_FILE": self.folder + "/p", "RANK": "1"}):
            progress(1, 1)
        with mock.patch.dict(os.environ, {"TRAINYARD_PROGRESS_FILE": self.folder + "/no/such/p"}):
            progress(1, 1)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
