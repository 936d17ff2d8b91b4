"""Which cells move to which worker in a local adjustment.

What the paper leaves out, and what it gains (`nearcast bench adjust`):

- the load of a cell is what its messages really cost, not messages times rows;
- a row that the destination holds already, for another cell, is not carried again; so cells at the
  border between two workers cost little, and what was moved makes its neighbours cheaper;
- a worker gives to several others, whichever costs least for the load it takes;
- a cell is moved only if the heavier of the two workers has less to do afterwards.

Pieces are moved in rounds. In each the heaviest worker gives away a part of what it has too much,
cheapest first; then prices are computed again. Loads come from a sample: the cell with the most
messages for its bytes is often just lucky. So the load of a piece is smoothed over the pieces of
the same worker around it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.adjust.pieces import Pieces
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.digest import sums
from nearcast.partition.grid import Grid

_PART = 0.25  # of what is too much, given away in one round
_LEAST = 0.05  # of what one worker is to give, in one round
_CLOSE = 1.005  # to what the giver keeps: what a taker may come to have
_FEW, _FEWEST = 16, 1024  # the part of a worker's pieces, and the number, that are sorted by price
_MOST_ROUNDS = 40  # for each worker


class PieceMoves(NamedTuple):
    """Which pieces go to which worker, in the order in which they were moved."""

    piece: Int32s
    destination: Int32s


class Rebalancer:
    """Moves pieces between workers until their loads are even.

    `loads` is what each worker has to do, `carried` the bytes that have to be carried so far.
    """

    def __init__(
        self, pieces: Pieces, recent: RecentWork, workers: int, load: Floats | None = None
    ) -> None:
        self._pieces = pieces
        self._row_ns = recent.row_ns
        self._bytes = recent.bytes
        self.owner = pieces.worker.copy()
        self.load = smoothed(pieces, recent.grid) if load is None else load
        self._held = np.zeros((len(recent.boxes), workers), np.int16)
        self._there = np.zeros((pieces.number, workers), np.float32)
        _fill(
            pieces.row_starts, pieces.row_pieces, self._bytes, self.owner, self._held, self._there
        )
        self.loads = sums(self.owner, self.load, workers)
        self.loads += self._row_ns * np.count_nonzero(self._held, axis=0)
        self.carried = 0.0
        self._moved: list[tuple[int, int]] = []

    def run(self, limit: float = 1.01, most_bytes: float = np.inf) -> PieceMoves:
        """Move pieces until no worker has more than `limit` means, or nothing helps any more."""
        stuck: set[int] = set()
        mean = float(self.loads.mean())
        for _ in range(_MOST_ROUNDS * len(self.loads)):
            free = [worker for worker in np.argsort(-self.loads).tolist() if worker not in stuck]
            if not free or self.loads[free[0]] <= limit * mean:
                break
            takers = np.flatnonzero(self.loads < mean)
            part = (float(self.loads[free[0]]) - mean) * _PART
            if self.give(free[0], part, takers, limit * mean, most_bytes):
                stuck.clear()
            else:
                stuck.add(free[0])
        return self.moves()

    def shed(self, giver: int, amount: float, takers: Int64s) -> PieceMoves:
        """Let one worker give an amount of load to some others; none comes to have more than it."""
        goal = float(self.loads[giver]) - amount
        most = max(goal, float(self.loads.mean())) * _CLOSE
        for _ in range(_MOST_ROUNDS):
            left = float(self.loads[giver]) - goal
            part = max(left * _PART, amount * _LEAST)
            if left <= 0 or not self.give(giver, part, takers, most):
                break
        return self.moves()

    def moves(self) -> PieceMoves:
        """What was moved, each piece once, to where it is now."""
        last = dict(self._moved)
        kept = [(piece, to) for piece, to in last.items() if self._pieces.worker[piece] != to]
        both = np.array(kept, np.int32).reshape(-1, 2)
        return PieceMoves(both[:, 0].copy(), both[:, 1].copy())

    def give(
        self,
        giver: int,
        amount: float,
        takers: Int64s,
        most_load: float = np.inf,
        most_bytes: float = np.inf,
    ) -> bool:
        """Let a worker give pieces of about this amount of load to others; say whether it did.

        No taker comes to have more than `most_load`, and no more is carried than `most_bytes`
        with all that was carried before.
        """
        mine = np.flatnonzero((self.owner == giver) & (self.load > 0))
        if not len(takers) or not len(mine):
            return False
        price = self._pieces.size[mine, None] - self._there[np.ix_(mine, takers)]
        cheapest = np.argmin(price, axis=1)
        best = price[np.arange(len(mine)), cheapest] / self.load[mine]
        for count in (max(len(mine) // _FEW, _FEWEST), len(mine)):
            order = _lowest(best, count)
            to = takers[cheapest[order]]
            if self._give(mine[order], to, giver, amount, most_load, most_bytes):
                return True
            if len(order) == len(mine):
                break
        return False

    def _give(
        self,
        pieces: Int64s,
        takers: Int64s,
        giver: int,
        amount: float,
        most_load: float,
        most_bytes: float,
    ) -> bool:
        moved, carried = _move_pieces(
            pieces, takers, giver, amount, most_load, most_bytes - self.carried,
            self.load, self.loads, self.owner, self._pieces.size,
            self._pieces.row_starts, self._pieces.row_pieces, self._pieces.piece_starts,
            self._pieces.piece_rows, self._bytes, self._row_ns, self._held, self._there,
        )  # fmt: skip
        self.carried += carried
        self._moved += zip(moved[:, 0].tolist(), moved[:, 1].tolist(), strict=True)
        return len(moved) > 0


def _lowest(values: Floats, count: int) -> Int64s:
    """Give the places of the lowest values, in their order."""
    if count >= len(values):
        return np.argsort(values, kind="stable")
    lowest = np.argpartition(values, count)[:count]
    return lowest[np.argsort(values[lowest], kind="stable")]


def smoothed(pieces: Pieces, grid: Grid) -> Floats:
    """Give the load of each piece as the mean over those of its worker around it.

    What a worker has in all stays the same.
    """
    worker = pieces.worker.astype(np.int64)
    code = pieces.cell.astype(np.int64) * (int(worker.max(initial=0)) + 1) + worker
    column, row = pieces.cell % grid.columns, pieces.cell // grid.columns
    total, count = np.zeros(pieces.number), np.zeros(pieces.number)
    step = int(worker.max(initial=0)) + 1
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            inside = (column + across >= 0) & (column + across < grid.columns)
            inside &= (row + down >= 0) & (row + down < grid.rows)
            other = code + (down * grid.columns + across) * step
            place = np.minimum(np.searchsorted(code, other), pieces.number - 1)
            found = inside & (code[place] == other)
            total[found] += pieces.load[place[found]]
            count[found] += 1
    mean = total / np.maximum(count, 1)
    before, after = sums(worker, pieces.load, step), sums(worker, mean, step)
    factor = np.divide(before, after, out=np.ones(step), where=after > 0)
    return np.asarray(mean * factor[worker])


@kernel
def _fill(
    row_starts: Int64s,
    row_pieces: Int32s,
    sizes: Floats,
    owner: Int32s,
    held: npt.NDArray[np.int16],
    there: npt.NDArray[np.float32],
) -> None:
    """Count the pieces of each row that each worker has, and what of each piece it holds."""
    for row in range(len(row_starts) - 1):
        for place in range(row_starts[row], row_starts[row + 1]):
            held[row, owner[row_pieces[place]]] += 1
        for worker in range(held.shape[1]):
            if held[row, worker]:
                for place in range(row_starts[row], row_starts[row + 1]):
                    there[row_pieces[place], worker] += sizes[row]


@kernel
def _move_pieces(
    pieces: Int64s,
    takers: Int64s,
    giver: int,
    amount: float,
    most_load: float,
    most_bytes: float,
    load: Floats,
    loads: Floats,
    owner: Int32s,
    size: Floats,
    row_starts: Int64s,
    row_pieces: Int32s,
    piece_starts: Int64s,
    piece_rows: Int32s,
    sizes: Floats,
    row_ns: float,
    held: npt.NDArray[np.int16],
    there: npt.NDArray[np.float32],
) -> tuple[Int32s, float]:
    """Move pieces in the order given until their loads are enough; give those that were moved.

    Piece `pieces[i]` of the giver goes to `takers[i]`. By piece: `load`, `owner`, `size` in bytes,
    and its rows `piece_rows[piece_starts[p] : piece_starts[p + 1]]`. By row: `sizes` in bytes, and
    its pieces `row_pieces[row_starts[r] : row_starts[r + 1]]`. `loads` is by worker; `held[r, w]`
    counts the pieces of a row that a worker has, `there[p, w]` the bytes of a piece that it holds.
    Gives (piece, taker) for each move, and the bytes to be carried.
    """
    moved = np.empty((len(pieces), 2), np.int32)
    count, carried, before = 0, 0.0, loads[giver]
    for at in range(len(pieces)):
        if loads[giver] <= before - amount:
            break
        piece, taker = pieces[at], takers[at]
        # Count the rows that the taker does not hold yet, and those that the giver is rid of.
        rows = piece_rows[piece_starts[piece] : piece_starts[piece + 1]]
        new = gone = 0
        for row in rows:
            new += held[row, taker] == 0
            gone += held[row, giver] == 1
        takes = loads[taker] + load[piece] + row_ns * new
        price = max(size[piece] - there[piece, taker], 0.0)
        # The heavier of the two must have less to do; and who takes must not become too heavy.
        if takes > most_load or takes >= loads[giver] or carried + price > most_bytes:
            continue
        # Move the piece.
        owner[piece] = taker
        loads[taker] = takes
        loads[giver] -= load[piece] + row_ns * gone
        carried += price
        moved[count, 0], moved[count, 1] = piece, taker
        count += 1
        # Keep count of what either worker holds, also of other pieces of these rows.
        for row in rows:
            first, last = row_starts[row], row_starts[row + 1]
            held[row, taker] += 1
            if held[row, taker] == 1:
                for place in range(first, last):
                    there[row_pieces[place], taker] += sizes[row]
            held[row, giver] -= 1
            if held[row, giver] == 0:
                for place in range(first, last):
                    there[row_pieces[place], giver] -= sizes[row]
    return moved[:count], carried
