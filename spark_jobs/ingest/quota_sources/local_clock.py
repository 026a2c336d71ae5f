"""Stamps of a server.log, which are local times without a zone, as epoch milliseconds."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class LocalClock:
    """Turns local stamps into epoch milliseconds; knows the second pass of a repeated hour."""

    def __init__(self, timezone: dt.tzinfo) -> None:
        self._timezone = timezone
        self._last_stamp = ""
        self._second_pass_day = ""

    def observe(self, stamp: str) -> bool:
        """Notice a clock set back: lines are in time order, so an earlier stamp means that.

        Returns whether the stamp is a time at all.
        """
        if not _is_time(stamp):
            return False
        if stamp < self._last_stamp and self._is_set_back(stamp):
            self._second_pass_day = stamp[:10]
        self._last_stamp = stamp
        return True

    def epoch_ms(self, stamp: str) -> int:
        """Return the moment of ``stamp``, which was observed last."""
        fold = int(stamp[:10] == self._second_pass_day)
        local = dt.datetime.fromisoformat(stamp.replace(",", "."))
        moment = local.replace(tzinfo=self._timezone, fold=fold)
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1)

    def _is_set_back(self, stamp: str) -> bool:
        # Threads may log a few ms out of order; a clock is set back by half an hour at least.
        before = dt.datetime.fromisoformat(self._last_stamp.replace(",", "."))
        after = dt.datetime.fromisoformat(stamp.replace(",", "."))
        return before - after > dt.timedelta(minutes=20)


def _is_time(stamp: str) -> bool:
    try:
        dt.datetime.fromisoformat(stamp.replace(",", "."))
    except ValueError:
        return False
    return True
