"""A fuzzer of the replay of rates: ``python -m tests.endurance.fuzz_rates ROWS [--seed N]``.

Replays random streams on random sensors, cut anywhere, beside the literal rule. Every column and
every state must have the same bits. Ends with 1 where one has not, and says of which seed.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from spark_jobs.quota.kernels import RateReplay
from tests.spark_jobs.quota.rate_streams import (
    RateStream,
    differences,
    random_sensors,
    replayed,
    replayed_literally,
    state_differences,
)

STREAM_ROWS = 100_000
SENSORS_MAX = 300
CUTS_MAX = 6


def wrong(seed: int, rows: int) -> list[str]:
    """Return what differs in the stream of ``seed``."""
    rng = np.random.default_rng(seed)
    states = random_sensors(rng, int(rng.integers(1, SENSORS_MAX)))
    stream = RateStream.of(rng, states, rows, mixed=bool(rng.random() < 0.5))
    literal = states.take(np.arange(len(states)))
    expected = replayed_literally(stream, literal)
    cuts = np.sort(rng.integers(0, rows + 1, int(rng.integers(0, CUTS_MAX)))).tolist()
    ends = zip([0, *cuts], [*cuts, rows], strict=True)
    parts = [replayed(stream.part(first, stop), states) for first, stop in ends]
    found = RateReplay(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return differences(found, expected) + state_differences(states, literal)


def main() -> int:
    parser = argparse.ArgumentParser(description="Replay random amounts beside the literal rule.")
    parser.add_argument("rows", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the first stream")
    asked = parser.parse_args()
    streams = -(-asked.rows // STREAM_ROWS)
    for seed in range(asked.seed, asked.seed + streams):
        found = wrong(seed, STREAM_ROWS)
        if found:
            again = f"python -m tests.endurance.fuzz_rates {STREAM_ROWS} --seed {seed}"
            print(f"seed {seed} differs in {'; '.join(found)}. Again: {again}")
            return 1
    print(f"{streams * STREAM_ROWS:,} rows in {streams:,} streams: no bit differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
