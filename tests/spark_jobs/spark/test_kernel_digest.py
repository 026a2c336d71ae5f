"""Compiled code on disk must not outlive its sources.

numba's cache of a function looks at the file that defines it and at nothing else. What ``_search``,
the placement, the reader of lines and the replay inline, and the constants they froze, are in other
files: these are told apart by a digest in the files that are looked at.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

from spark_jobs.ingest.fast_lines import line_fields, line_kernel, line_layout, line_scan, line_walk
from spark_jobs.quota import (
    bucket_kernel,
    compiled_rules,
    controller_mutation,
    java_math,
    rate_decision,
    rate_kernel,
    throttle_time,
)
from spark_jobs.replay.alignment import beam, borrowed, events, explanation, placement, search, step

ROOT = Path(__file__).parents[3]
INLINED = (borrowed, events, beam, explanation, step)
CACHED = (search, placement)
READER_INLINED = (line_layout, line_scan, line_fields, line_walk)
READER_CACHED = (line_kernel,)
REPLAY_INLINED = (compiled_rules, java_math, throttle_time, rate_decision, controller_mutation)
REPLAY_CACHED = (rate_kernel, bucket_kernel)
ALL_INLINED = INLINED + READER_INLINED + REPLAY_INLINED
ALL_CACHED = CACHED + READER_CACHED + REPLAY_CACHED


@pytest.mark.parametrize(
    ("inlined", "cached"),
    [(INLINED, CACHED), (READER_INLINED, READER_CACHED), (REPLAY_INLINED, REPLAY_CACHED)],
    ids=["alignment", "reader of lines", "replay"],
)
def test_the_files_with_cached_functions_name_what_they_inline(
    inlined: tuple[ModuleType, ...], cached: tuple[ModuleType, ...]
) -> None:
    sources = b"".join(Path(str(module.__file__)).read_bytes() for module in inlined)
    digest = hashlib.sha256(sources).hexdigest()[:12]
    files = " ".join(Path(str(module.__file__)).relative_to(ROOT).as_posix() for module in cached)
    refresh = f"sed -i 's/^KERNEL_DIGEST = .*/KERNEL_DIGEST = \"{digest}\"/' {files}"
    for module in cached:
        text = Path(str(module.__file__)).read_text()
        found = re.findall(r'^KERNEL_DIGEST = "(\w+)"$', text, re.MULTILINE)
        assert found == [digest], (
            f"{module.__name__} was compiled from other sources ({found}): numba would run the old "
            f"code from its cache. Refresh the digest, which also makes numba compile: {refresh}"
        )


@pytest.mark.parametrize("module", [*ALL_INLINED, *ALL_CACHED], ids=lambda module: module.__name__)
def test_only_the_files_with_a_digest_cache_what_they_compile(module: ModuleType) -> None:
    caching = [
        name
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
        and value.py_func.__module__ == module.__name__
        and type(value._cache).__name__ != "NullCache"
    ]
    assert bool(caching) == (module in ALL_CACHED), caching
    assert hasattr(module, "KERNEL_DIGEST") == (module in ALL_CACHED)
