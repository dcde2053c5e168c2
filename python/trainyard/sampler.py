# SPDX-License-Identifier: Apache-2.0
"""Which samples a rank trains on, exactly, whatever happens to the job in between.

The order of an epoch is a permutation computed from (seed, epoch) alone; a position in it belongs to the whole job, not to
a rank. So a checkpoint of three numbers is enough to go on with any number of ranks, no sample skipped or doubled."""

import math

from . import environment

_MASK = (1 << 64) - 1
_ROUNDS = 4


def _mix(value):
    """64 well-mixed bits (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class _Permutation:
    """A keyed bijection on range(length) in constant memory: no list is shuffled, neither at start nor after a resume.

    A number is a cell of a grid of nearly square shape; each half round moves it along one axis by an amount that depends
    on the other, which is reversible whatever the amounts. Cells outside the range are walked through."""

    def __init__(self, length, seed, epoch):
        self.length = length
        self.rows = math.isqrt(length - 1) + 1
        self.columns = -(-length // self.rows)
        key = _mix(_mix(seed & _MASK) ^ (epoch & _MASK))
        self.keys = [_mix(key ^ number) for number in range(1, 2 * _ROUNDS + 1)]

    def __getitem__(self, position):
        rows, columns, keys = self.rows, self.columns, self.keys
        while True:
            row, column = divmod(position, columns)
            for number in range(0, 2 * _ROUNDS, 2):
                row = (row + _mix(keys[number] ^ column)) % rows
                column = (column + _mix(keys[number + 1] ^ row)) % columns
            position = row * columns + column
            if position < self.length:
                return position


class Sampler:
    """Batches of indices for this rank: DataLoader(data, batch_sampler=sampler), or plainly `for indices in sampler`.

    `batch_size` is the number of samples per step of the whole job; the ranks share each batch evenly (sizes differ by one
    at most), so a step means the same with any number of them. Rank and world size are asked for when an iteration begins
    (torch.distributed, else RANK and WORLD_SIZE, else alone), unless given.

    `position` counts samples of this epoch that were handed out, by all ranks together. Iterating goes on from there; when
    an epoch is complete, `epoch` is one more and `position` 0. Save after the step that used a batch.

    The last batch: what is left over is a batch of its own when it is at least half a batch, else it joins the one before.
    With drop_last it is left out instead: then, and only then, an epoch misses length % batch_size samples."""

    def __init__(self, length, seed=0, batch_size=1, rank=None, world_size=None, shuffle=True, drop_last=False):
        if hasattr(length, "__len__"):
            length = len(length)
        if length < 1 or batch_size < 1:
            raise ValueError("Sampler: length {} and batch_size {} must be at least 1".format(length, batch_size))
        self.length, self.seed, self.batch_size = int(length), int(seed), int(batch_size)
        self.shuffle, self.drop_last = shuffle, drop_last
        self.epoch = self.position = 0
        self._rank, self._world_size = rank, world_size
        self._followed = False  # over() counts, not __iter__
        self._shares = (1, 1)   # of the batch in use: this rank's samples, everybody's

    # ---- who we are

    @property
    def rank(self):
        return environment.rank() if self._rank is None else self._rank

    @property
    def world_size(self):
        return environment.world_size() if self._world_size is None else self._world_size

    # ---- what to do next

    def _size_at(self, position):
        """Samples in the global batch that begins at `position`; 0 at the end of the epoch."""
        left = self.length - position
        if self.drop_last:
            return self.batch_size if left >= self.batch_size else 0
        return left if left < self.batch_size + (self.batch_size + 1) // 2 else self.batch_size

    def _sizes(self, position):
        while True:
            size = self._size_at(position)
            if size == 0:
                return
            yield position, size
            position += size

    def _share(self, position, size, rank, world_size):
        return position + size * rank // world_size, position + size * (rank + 1) // world_size

    def _smallest(self):
        """Samples in the smallest batch from `position` on."""
        left, half = self.length - self.position, (self.batch_size + 1) // 2
        if self.drop_last or left < self.batch_size + half:
            return self._size_at(self.position)
        rest = left % self.batch_size
        return rest if rest >= half else self.batch_size

    def _check(self):
        rank, world_size = self.rank, self.world_size
        if not 0 <= rank < world_size:
            raise ValueError("Sampler: rank {} of {} does not exist".format(rank, world_size))
        smallest = self._smallest()
        if 0 < smallest < world_size:
            raise ValueError("Sampler: a batch of {} samples cannot be shared by {} ranks; raise batch_size (it counts the "
                             "samples of all ranks together) or pass drop_last=True".format(smallest, world_size))
        return rank, world_size

    def __iter__(self):
        rank, world_size = self._check()
        counts = not self._followed
        self._followed = False
        order = _Permutation(self.length, self.seed, self.epoch) if self.shuffle else range(self.length)
        for position, size in self._sizes(self.position):
            first, last = self._share(position, size, rank, world_size)
            if counts:
                self._hand_out(position, size, rank, world_size)
            yield [order[at] for at in range(first, last)]
        if counts:
            self._end_epoch()

    def _hand_out(self, position, size, rank, world_size):
        first, last = self._share(position, size, rank, world_size)
        self.position, self._shares = position + size, (last - first, size)

    def _end_epoch(self):
        self.epoch, self.position = self.epoch + 1, 0

    def over(self, loader):
        """Iterate over a DataLoader that uses this sampler. Needed when it has workers (num_workers > 0): they ask for
        indices long before the training uses them, and only what was used may count."""
        rank, world_size = self._check()
        self._followed = True
        batches = iter(loader)
        try:
            for position, size in self._sizes(self.position):
                try:
                    batch = next(batches)
                except StopIteration:
                    raise ValueError("Sampler.over: the loader ended before the epoch; was it made with "
                                     "batch_sampler=this sampler?") from None
                self._hand_out(position, size, rank, world_size)
                yield batch
            self._end_epoch()
        finally:
            self._followed = False

    def __len__(self):
        """Steps that are left in this epoch, the same for every rank."""
        left = self.length - self.position
        if self.drop_last:
            return left // self.batch_size
        if left == 0:
            return 0
        return max(1, (left + self.batch_size // 2) // self.batch_size)

    @property
    def weight(self):
        """This rank's share of the batch in use, times the number of ranks: 1 when all have equally many. The mean loss of
        a rank times this, averaged over the ranks as DistributedDataParallel does, is the mean over the whole batch."""
        mine, all_ranks = self._shares
        return mine * self.world_size / all_ranks

    def set_epoch(self, epoch):
        """As of torch's DistributedSampler. Another epoch than the present one begins at its start."""
        if epoch != self.epoch:
            self.epoch, self.position = int(epoch), 0

    # ---- to be kept

    def state_dict(self):
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        if not 0 <= state["position"] <= self.length:
            raise ValueError("Sampler: the checkpoint is at sample {}, but there are only {}; it belongs to other data".format(
                state["position"], self.length))
        self.seed, self.epoch, self.position = int(state["seed"]), int(state["epoch"]), int(state["position"])
