# SPDX-License-Identifier: Apache-2.0
"""Every epoch is a permutation, whatever happens in between."""

import random
import unittest
from itertools import zip_longest

from trainyard import Sampler
from trainyard.sampler import _Permutation

try:
    import torch
except ImportError:
    torch = None


def ranks_of(length, world_size, state, **options):
    """One sampler per rank, all from the same checkpoint."""
    samplers = [Sampler(length, rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    for sampler in samplers:
        sampler.load_state_dict(state)
    return samplers


def train(length, batch_size, dice, drop_last=False, epochs=3, max_world=5, shuffle=True):
    """Indices used per epoch by a job that is interrupted at random and comes back with another number of ranks. Steps that
    were taken but not saved are taken again, as after a kill."""
    state = {"seed": dice.randrange(1 << 40), "epoch": 0, "position": 0}
    used = {epoch: [] for epoch in range(epochs)}
    while state["epoch"] < epochs:
        samplers = ranks_of(length, dice.randint(1, max_world), state, batch_size=batch_size, drop_last=drop_last, shuffle=shuffle)
        saved, pending = state, []
        ending = dice.randint(0, 12)
        steps = 0
        while steps < ending and samplers[0].epoch < epochs:
            epoch = samplers[0].epoch
            for parts in zip_longest(*samplers):
                pending.append((epoch, [index for part in parts for index in part]))
                steps += 1
                if dice.random() < 0.5:  # a checkpoint: what was done is done
                    saved = samplers[dice.randrange(len(samplers))].state_dict()
                    for when, indices in pending:
                        used[when] += indices
                    pending = []
                if steps >= ending:
                    break
        state = saved if pending else samplers[0].state_dict()
    return used


class Exact(unittest.TestCase):
    def test_every_epoch_is_a_permutation_under_random_interruptions_and_world_sizes(self):
        for seed in range(60):
            dice = random.Random(seed)
            batch_size = dice.randint(10, 30)  # at least twice the ranks, so that every rank always has something
            length = dice.randint(batch_size, 400)
            with self.subTest(seed=seed):
                for indices in train(length, batch_size, dice, shuffle=seed % 4 != 0).values():
                    self.assertEqual(sorted(indices), list(range(length)))

    def test_dropping_the_last_batch_misses_the_remainder_and_nothing_else(self):
        for seed in range(20):
            dice = random.Random(seed)
            batch_size = dice.randint(5, 30)
            length = dice.randint(batch_size, 300)
            with self.subTest(seed=seed):
                for indices in train(length, batch_size, dice, drop_last=True).values():
                    self.assertEqual(len(indices), length - length % batch_size)
                    self.assertEqual(len(set(indices)), len(indices))

    def test_the_global_batches_do_not_depend_on_the_number_of_ranks(self):
        start = {"seed": 5, "epoch": 2, "position": 0}
        alone = [batch for batch in ranks_of(1000, 1, start, batch_size=48)[0]]
        for world_size in (2, 3, 4, 7):
            together = [sum(parts, []) for parts in zip(*ranks_of(1000, world_size, start, batch_size=48))]
            self.assertEqual(together, alone)

    def test_every_rank_takes_as_many_steps_and_len_says_how_many(self):
        for length in range(8, 60):
            for batch_size in (8, 9, 17):
                for drop_last in (False, True):
                    samplers = [Sampler(length, batch_size=batch_size, rank=rank, world_size=4, drop_last=drop_last) for rank in range(4)]
                    said = [len(sampler) for sampler in samplers]
                    done = [len(list(sampler)) for sampler in samplers]
                    self.assertEqual(said, done)
                    self.assertEqual(len(set(done)), 1)

    def test_shares_differ_by_one_at_most_and_the_weights_add_up(self):
        samplers = [Sampler(103, batch_size=10, rank=rank, world_size=3) for rank in range(3)]
        for parts in zip_longest(*samplers):
            sizes = [len(part) for part in parts]
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            for sampler, size in zip(samplers, sizes):
                self.assertAlmostEqual(sampler.weight, size * 3 / sum(sizes))

    def test_a_batch_that_leaves_a_rank_without_samples_is_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, "a batch of 2 samples cannot be shared by 3 ranks; raise batch_size"):
            next(iter(Sampler(10, batch_size=4, rank=0, world_size=3)))
        self.assertEqual(len(list(Sampler(10, batch_size=4, rank=0, world_size=3, drop_last=True))), 2)

    def test_a_position_beyond_the_data_is_refused(self):
        with self.assertRaisesRegex(ValueError, "at sample 50, but there are only 40"):
            Sampler(40).load_state_dict({"seed": 0, "epoch": 0, "position": 50})


class Epochs(unittest.TestCase):
    def test_an_iteration_goes_on_where_the_last_one_ended_and_then_the_epoch_counts(self):
        sampler = Sampler(20, batch_size=5, rank=0, world_size=1)
        first = []
        for batch in sampler:
            first += batch
            if len(first) == 10:
                break
        self.assertEqual(sampler.state_dict(), {"seed": 0, "epoch": 0, "position": 10})
        first += sum(sampler, [])
        self.assertEqual(sorted(first), list(range(20)))
        self.assertEqual(sampler.state_dict(), {"seed": 0, "epoch": 1, "position": 0})

    def test_set_epoch_keeps_the_position_of_the_present_epoch(self):
        sampler = Sampler(20, batch_size=5)
        next(iter(sampler))
        sampler.set_epoch(0)
        self.assertEqual(sampler.position, 5)
        sampler.set_epoch(3)
        self.assertEqual((sampler.epoch, sampler.position), (3, 0))

    def test_epochs_and_seeds_give_other_orders_and_the_same_one_again(self):
        def order(seed, epoch):
            sampler = Sampler(50, seed=seed)
            sampler.set_epoch(epoch)
            return sum(sampler, [])

        self.assertEqual(order(1, 1), order(1, 1))
        self.assertEqual(len({tuple(order(seed, epoch)) for seed in range(6) for epoch in range(6)}), 36)
        self.assertEqual(sum(Sampler(9, shuffle=False), []), list(range(9)))

    def test_the_order_is_part_of_the_format(self):
        self.assertEqual(sum(Sampler(12, seed=7), []), ORDER_OF_12_SEED_7)


class Order(unittest.TestCase):
    def test_it_is_a_bijection_for_every_small_length_and_cheap_for_huge_ones(self):
        for length in list(range(1, 200)) + [1009, 4096]:
            order = _Permutation(length, 3, length)
            self.assertEqual(sorted(order[at] for at in range(length)), list(range(length)))
        huge = _Permutation(10**12, 1, 1)
        self.assertEqual(len({huge[at] for at in range(1000)}), 1000)

    def test_all_orders_of_four_come_up_about_equally_often(self):
        counts = {}
        for seed in range(12000):
            order = _Permutation(4, seed, 0)
            key = tuple(order[at] for at in range(4))
            counts[key] = counts.get(key, 0) + 1
        self.assertEqual(len(counts), 24)
        self.assertLess(sum((count - 500) ** 2 / 500 for count in counts.values()), 60)  # chi-squared, 23 degrees of freedom

    def test_neighbours_land_anywhere(self):
        length = 10000
        order = _Permutation(length, 11, 4)
        steps = [(order[at + 1] - order[at]) % length for at in range(length - 1)]
        tenths = [0] * 10
        for step in steps:
            tenths[step * 10 // length] += 1
        self.assertLess(sum((count - 1000) ** 2 / 1000 for count in tenths), 40)


@unittest.skipIf(torch is None, "torch is not installed")
class WithDataLoader(unittest.TestCase):
    class Squares:
        def __len__(self):
            return 50

        def __getitem__(self, index):
            return [at * at for at in index] if isinstance(index, list) else index * index

    def test_as_batch_sampler_and_as_sampler_of_lists(self):
        from torch.utils.data import DataLoader

        for options in ({"batch_sampler": Sampler(50, batch_size=8)}, {"sampler": Sampler(50, batch_size=8), "batch_size": None}):
            loader = DataLoader(self.Squares(), **options)
            self.assertEqual(len(loader), 6)
            values = [int(value) for batch in loader for value in batch]
            self.assertEqual(sorted(values), [at * at for at in range(50)])

    def test_workers_that_read_ahead_do_not_count(self):
        from torch.utils.data import DataLoader

        used = []
        state = {"seed": 3, "epoch": 0, "position": 0}
        for _ in range(4):
            sampler = Sampler(50, batch_size=8)
            sampler.load_state_dict(state)
            loader = DataLoader(self.Squares(), batch_sampler=sampler, num_workers=2)
            for number, batch in enumerate(sampler.over(loader)):
                used += [int(value) for value in batch]
                if number == 1:
                    break
            state = sampler.state_dict()
            if state["epoch"]:
                break
        self.assertEqual(sorted(used), [at * at for at in range(50)])
        self.assertEqual(state, {"seed": 3, "epoch": 1, "position": 0})

    def test_a_loader_that_is_not_over_this_sampler_is_told(self):
        with self.assertRaisesRegex(ValueError, "made with batch_sampler=this sampler"):
            list(Sampler(50, batch_size=8).over([1, 2]))


ORDER_OF_12_SEED_7 = [11, 10, 2, 7, 1, 3, 9, 5, 6, 0, 4, 8]

if __name__ == "__main__":
    unittest.main()
