"""Python's search for garbage passes over a worker's modules, and over nothing that comes later."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from spark_jobs.spark import on_workers


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(on_workers, "_modules_kept", 0)
    yield
    gc.unfreeze()


def test_what_is_loaded_is_left_out_until_more_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    on_workers.keep_modules()
    kept = gc.get_freeze_count()
    assert kept > len(sys.modules)
    more = [[] for _ in range(1000)]
    on_workers.keep_modules()
    # Other threads may drop some of what is left out.
    assert gc.get_freeze_count() <= kept
    kept = gc.get_freeze_count()
    monkeypatch.setitem(sys.modules, "loaded_later", types.ModuleType("loaded_later"))
    on_workers.keep_modules()
    assert gc.get_freeze_count() > kept + len(more) // 2


def test_garbage_of_later_tasks_is_still_found() -> None:
    on_workers.keep_modules()

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    found = weakref.ref(Cycle())
    gc.collect()
    assert found() is None
