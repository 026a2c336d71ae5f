"""Who shares a policy's state with whom, and who of them stayed inside a fair share of it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

ACTIVE_MS = 10_000
"""A client is active in a state while its last request there is less than this ago."""
_CELL_MS = 100
_CELLS = ACTIVE_MS // _CELL_MS

Client = tuple[str, str]
"""User and client-id."""


@dataclass(slots=True)
class RecentAmount:
    """What one client asked for in the last 10 s, in cells of 100 ms."""

    cells: deque[tuple[int, float]] = field(default_factory=deque)
    total: float = 0.0

    def add(self, cell: int, amount: float) -> None:
        """Count an amount; cells never go back by much, and one that does counts as the newest."""
        if self.cells and self.cells[-1][0] >= cell:
            newest, held = self.cells.pop()
            self.cells.append((newest, held + amount))
        else:
            self.cells.append((cell, amount))
        self.total += amount

    def forget_before(self, cell: int) -> None:
        """Forget the amounts of cells before ``cell``."""
        while self.cells and self.cells[0][0] < cell:
            self.total -= self.cells.popleft()[1]


class SharedStates:
    """The clients of each state, by what they asked for in the last 10 s.

    >>> states = SharedStates()
    >>> states.is_inside("s", ("noisy", ""), 900.0, bound=100.0, now_ms=0)
    False
    >>> states.is_inside("s", ("calm", ""), 400.0, bound=100.0, now_ms=0)
    True
    >>> states.is_inside("s", ("noisy", ""), 200.0, bound=100.0, now_ms=100)
    False
    """

    def __init__(self) -> None:
        self._clients: dict[str, dict[Client, RecentAmount]] = {}
        self._swept_cell = -_CELLS

    def is_inside(
        self, state_key: str, client: Client, amount: float, bound: float, now_ms: int
    ) -> bool:
        """Count ``amount``; return True if its client is inside its share of a shared state.

        The share is ``bound`` (per second) over the clients active in the last 10 s; a client is
        inside while its own rate over those 10 s, with this request, is at most that. A client that
        has a state to itself shares nothing, and without a bound there is nothing to share.
        """
        cell = now_ms // _CELL_MS
        self._sweep(cell)
        clients = self._clients.setdefault(state_key, {})
        own = clients.pop(client, None) or RecentAmount()
        own.add(cell, amount)
        own.forget_before(cell - _CELLS + 1)
        clients[client] = own  # last: clients are in the order of their newest request
        while not _is_active(clients[next(iter(clients))], cell):
            del clients[next(iter(clients))]
        if len(clients) < 2 or math.isnan(bound):
            return False
        return own.total * 1000 / ACTIVE_MS <= bound / len(clients)

    def _sweep(self, cell: int) -> None:
        """Forget states in which nobody is active any more, now and then."""
        if cell - self._swept_cell < _CELLS:
            return
        self._swept_cell = cell
        for key, clients in list(self._clients.items()):
            if not _is_active(clients[next(reversed(clients))], cell):
                del self._clients[key]


def _is_active(recent: RecentAmount, cell: int) -> bool:
    return recent.cells[-1][0] > cell - _CELLS
