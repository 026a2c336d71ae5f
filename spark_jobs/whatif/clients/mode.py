"""How clients are played in a replay."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What a row of ``tables.WHATIF`` says of its requests' arrivals."""

    AS_LOGGED = "as_logged"
    """Every request arrives when the log says, whatever it would have been answered."""
    CLOSED_LOOP = "closed_loop"
    """Each client waits and retries as its answers tell it."""
