# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own TCPStore clients and process groups against the agent-hosted store."""
import os
import subprocess
import sys
import threading
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

HOST = ""


def milliseconds(count):
    return timedelta(milliseconds=count)


def rank_main():
    """One of four ranks; started by the test below with torchrun's environment."""
    dist.init_process_group("gloo", init_method="env://", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    assert total.item() == size * (size - 1) / 2, total
    dist.barrier()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]  # every rank makes every group
    other = dist.new_group([0, 1, 2, 3])
    part = torch.tensor([float(rank)])
    dist.all_reduce(part, group=pairs[rank // 2])
    assert part.item() == (1 if rank < 2 else 5), part
    seen = [None] * size
    dist.all_gather_object(seen, {"rank": rank}, group=other)
    assert [entry["rank"] for entry in seen] == list(range(size)), seen
    dist.barrier()
    dist.destroy_process_group()
    print("ok", rank)


class Store(unittest.TestCase):
    def setUp(self):
        self.host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.host.stdout.readline())

    def tearDown(self):
        self.host.stdin.close()
        self.assertEqual(self.host.wait(timeout=30), 0)
        self.host.stdout.close()

    def client(self, timeout=30_000, **more):
        return dist.TCPStore("127.0.0.1", self.port, is_master=False, timeout=milliseconds(timeout), **more)

    def test_every_method(self):
        store = self.client()
        store.set("k", "v")
        self.assertEqual(store.get("k"), b"v")
        self.assertEqual(store.compare_set("c", "", "one"), b"one")
        self.assertEqual(store.compare_set("c", "wrong", "two"), b"one")
        self.assertEqual(store.compare_set("c", "one", "two"), b"two")
        self.assertEqual(store.compare_set("absent", "expected", "x"), b"expected")
        self.assertEqual(store.add("n", 5), 5)
        self.assertEqual(store.add("n", -7), -2)
        self.assertEqual(store.get("n"), b"-2")
        self.assertTrue(store.check(["k", "c", "n"]))
        self.assertFalse(store.check(["k", "nope"]))
        self.assertEqual(store.num_keys(), 3)
        store.append("a", "12")
        store.append("a", "34")
        self.assertEqual(store.get("a"), b"1234")
        store.multi_set(["x", "y"], ["1", "22"])
        self.assertEqual(store.multi_get(["x", "y", "k"]), [b"1", b"22", b"v"])
        store.wait(["x", "y"])
        self.assertTrue(store.delete_key("x"))
        self.assertFalse(store.delete_key("x"))
        self.assertTrue(store.has_extended_api())
        self.assertEqual(store.clone().get("k"), b"v")

    @unittest.skipUnless(hasattr(dist.TCPStore, "queue_push"), "this PyTorch has no queues")
    def test_queues_and_lists_of_keys(self):
        store = self.client(timeout=300)
        store.queue_push("q", "1")
        store.queue_push("q", "2")
        self.assertEqual(store.queue_len("q"), 2)
        self.assertEqual(store.queue_pop("q"), b"1")
        self.assertEqual(store.queue_pop("q", False), b"2")
        with self.assertRaises(dist.QueueEmptyError):
            store.queue_pop("q", False)
        with self.assertRaises(dist.DistStoreError):
            store.queue_pop("q")
        store.set("k", "v")
        if hasattr(store, "list_keys"):
            self.assertEqual(list(store.list_keys()), ["k"])

    @unittest.skipUnless(hasattr(dist.TCPStore, "barrier"), "this PyTorch has no store barriers")
    def test_barriers(self):
        first, second = self.client(), self.client()
        with self.assertRaises(dist.DistStoreError):
            first.barrier("alone", 2, milliseconds(100))
        other = threading.Thread(target=lambda: second.barrier("both", 2, timedelta(seconds=30)))
        other.start()
        first.barrier("both", 2, timedelta(seconds=30))
        other.join()

    def test_waits_time_out_and_the_connection_goes_on(self):
        store = self.client()
        for _ in range(3):
            with self.assertRaises(dist.DistStoreError):
                store.wait(["never"], milliseconds(50))
            store.set("k", "v")
            self.assertEqual(store.get("k"), b"v")
        short = self.client(timeout=100)
        with self.assertRaises(dist.DistStoreError):
            short.get("never")
        self.assertEqual(short.get("k"), b"v")

    def test_a_get_waits_for_another_process(self):
        store = self.client()
        text = (
            "import sys, torch.distributed as d; s = d.TCPStore('127.0.0.1', int(sys.argv[1]), is_master=False)\n"
            "s.set('from-child', s.get('from-parent') + b'!')\n"
        )
        child = subprocess.Popen([sys.executable, "-c", text, str(self.port)])
        store.set("from-parent", "hello")
        store.set_timeout(timedelta(seconds=120))
        self.assertEqual(store.get("from-child"), b"hello!")
        self.assertEqual(child.wait(timeout=60), 0)

    def test_ten_megabytes(self):
        store = self.client()
        value = bytes(range(256)) * 40_000
        store.set("big", value)
        self.assertEqual(store.get("big"), value)
        store.multi_set(["b1", "b2"], [value, value])
        self.assertEqual(store.multi_get(["b1", "b2"]), [value, value])

    def test_sixty_four_clients(self):
        clients = [self.client() for _ in range(64)]

        def work(index):
            clients[index].set(f"key{index}", str(index))
            clients[index].add("count", 1)
            clients[index].wait([f"key{other}" for other in range(64)])

        threads = [threading.Thread(target=work, args=(index,)) for index in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(clients[0].get("count"), b"64")
        self.assertEqual(clients[0].num_keys(), 65)

    def test_world_size_waits_for_all_workers(self):
        stores = []
        threads = [
            threading.Thread(target=lambda: stores.append(self.client(world_size=2, wait_for_workers=True)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(stores), 2)

    def test_process_groups_of_four_ranks(self):
        environment = dict(
            os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), WORLD_SIZE="4", OMP_NUM_THREADS="1",
            TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_RUN_ID="t",
        )
        ranks = [
            subprocess.Popen([sys.executable, __file__, "--rank"], env=dict(environment, RANK=str(rank)),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for rank in range(4)
        ]
        for process in ranks:
            self.addCleanup(process.kill)
        for rank, process in enumerate(ranks):
            output = process.communicate(timeout=200)[0].decode()
            self.assertEqual(process.returncode, 0, output)
            self.assertIn(f"ok {rank}", output)


if __name__ == "__main__":
    if sys.argv[1:] == ["--rank"]:
        rank_main()
    else:
        HOST = sys.argv.pop(1)
        unittest.main(verbosity=2)
