# SPDX-License-Identifier: Apache-2.0
"""The state object with PyTorch's objects, forks beside its threads, and several ranks."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from trainyard import Sampler, State, background, files

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

LIMIT = 60

RANKS = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
from trainyard import State
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=3)
torch.manual_seed(rank)
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
state = State(sys.argv[2] + str(rank), model=model, epoch=0)
print(rank, state.resume(), state.step, state.epoch, float(next(model.parameters()).detach().sum()), flush=True)
dist.destroy_process_group()
"""


@unittest.skipIf(torch is None, "torch is not installed")
class WithTorch(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def make(self, **options):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        return State(self.folder, model=model, optimizer=optimizer, scheduler=scheduler, sampler=Sampler(640, batch_size=16),
                     loss=torch.zeros(()), **options)

    def step(self, state, indices):
        generator = torch.Generator().manual_seed(indices[0])
        state.optimizer.zero_grad()
        loss = state.model(torch.randn(len(indices), 256, generator=generator)).pow(2).mean() * state.sampler.weight
        loss.backward()
        state.optimizer.step()
        state.scheduler.step()
        state.loss = loss.detach()

    def train(self, state, steps, first=0):
        done = first
        while done < steps:
            for indices in state.sampler:
                self.step(state, indices)
                done += 1
                if done == steps:
                    break
        return [parameter.detach().clone() for parameter in state.model.state_dict().values()] + [state.loss]

    def assert_equal(self, one, other):
        for mine, its in zip(one, other):
            self.assertTrue(torch.equal(mine, its))

    def test_an_interrupted_training_ends_bit_for_bit_where_the_undisturbed_one_does(self):
        expected = self.train(self.make(), 60)
        for way in ("fork", "thread", "off"):
            with self.subTest(way):
                state = self.make(background=way)
                self.train(state, 35)
                state.save(35)
                self.train(state, 60, 35)  # the parent trains on while the child writes
                state.wait()
                again = self.make()
                self.assertTrue(again.resume())
                self.assertEqual(again.step, 35)
                self.assert_equal(self.train(again, 60, 35), expected)

    def test_a_file_is_an_ordinary_torch_file(self):
        state = self.make()
        state.save(4)
        state.wait()
        document = torch.load(os.path.join(self.folder, files.name_of(4)), weights_only=True)
        self.assertEqual(sorted(document["values"]), ["loss", "model", "optimizer", "sampler", "scheduler"])

    def test_objects_that_safe_loading_refuses_come_back_too(self):
        State(self.folder, value=pathlib.Path("/x"), background="off").save(1)
        state = State(self.folder, value=None)
        self.assertTrue(state.resume())
        self.assertEqual(state.value, pathlib.Path("/x"))

    def test_a_fork_beside_busy_threads_of_torch_is_whole(self):
        torch.set_num_threads(2)
        state = State(self.folder, keep=1, value=torch.zeros(1 << 18))
        work = torch.randn(400, 400)
        for step in range(1, 40):
            work = (work @ work).clamp(-1, 1)
            state.value.fill_(step)
            state.save(step)
            state.value.fill_(-1)
        state.wait()
        again = State(self.folder, value=None)
        again.resume()
        self.assertTrue(bool((again.value == 39).all()))

    def test_a_snapshot_shares_no_memory_and_a_gpu_means_no_fork(self):
        document = {"a": torch.ones(3), "b": [torch.ones(2), {"c": (torch.ones(1), "x")}]}
        copy = background.snapshot(document)
        document["a"].zero_()
        document["b"][1]["c"][0].zero_()
        self.assertEqual((float(copy["a"].sum()), float(copy["b"][1]["c"][0]), copy["b"][1]["c"][1]), (3.0, 1.0, "x"))
        self.assertTrue(background.can_fork(document))
        self.assertFalse(background.can_fork({"a": [torch.ones(1, device="meta")]}))

    def test_all_ranks_load_the_newest_checkpoint_that_one_of_them_has(self):
        for number, step in ((0, 5), (1, 8)):  # rank 2 has none at all
            model = nn.Linear(3, 2)
            for parameter in model.parameters():
                nn.init.constant_(parameter, step)
            State(self.folder + "/" + str(number), model=model, epoch=step, background="off").save(step)
        ranks = [subprocess.Popen([sys.executable, "-c", RANKS, self.folder + "/store", self.folder + "/"], stdout=subprocess.PIPE,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"}) for rank in range(3)]
        said = sorted(rank.communicate(timeout=LIMIT)[0].decode().strip() for rank in ranks)
        self.assertEqual(said, ["{} True 8 8 48.0".format(rank) for rank in range(3)])

    def test_large_tensors_come_to_lie_on_huge_pages(self):
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            if "[never]" in file.read():
                self.skipTest("this system gives no huge pages")

        def huge():
            with open("/proc/self/smaps_rollup") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages"))

        value = torch.ones(16 << 20)  # 64 MiB
        before = huge()
        background.use_huge_pages({"value": [value]})
        end = time.monotonic() + LIMIT
        while huge() < before + 50000 and time.monotonic() < end:
            time.sleep(0.02)
        if huge() == before:
            self.skipTest("this kernel collapses no pages on request")
        self.assertEqual(float(value.sum()), 16 << 20)
        background.use_huge_pages({"small": torch.ones(3), "none": 7})

    @unittest.skipUnless(torch is not None and torch.cuda.is_available(), "no GPU")
    def test_with_a_gpu_a_thread_writes_a_copy(self):
        state = State(self.folder, value=torch.arange(1 << 20, device="cuda"))
        state.save(1)
        self.assertIsInstance(state._writer, background.Threaded)
        state.value.zero_()
        state.wait()
        again = State(self.folder, value=None)
        again.resume()
        self.assertTrue(torch.equal(again.value, torch.arange(1 << 20)))


if __name__ == "__main__":
    unittest.main()
