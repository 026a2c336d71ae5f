"""What the lab does to processes, tried on processes that are no brokers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.oracle.cluster_plan import BROKER, ClusterPlan, Node
from tests.oracle.lab import RunningCluster
from tests.oracle.lab_events import carry_out
from tests.oracle.lab_process import JavaProcess, LabError
from tests.oracle.node_process import NodeProcess
from tests.oracle.scenario import Busy, Pause

_COUNTING = """\
import time
print("counting", flush=True)
while True:
    print(time.monotonic(), flush=True)
    time.sleep(0.005)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """A cluster whose node 1 prints the time again and again, and whose node 2 has stopped."""
    plan = ClusterPlan("4.1.0", "combined", (Node(1, (BROKER,)), Node(2, (BROKER,))))
    nodes = tuple(NodeProcess(plan, node, tmp_path / str(node.node_id)) for node in plan.nodes)
    output = tmp_path / "out"
    with output.open("w") as sink:
        process = subprocess.Popen([sys.executable, "-c", _COUNTING], stdout=sink, text=True)
    counting = JavaProcess("node 1", process, output)
    nodes[0]._java = counting
    try:
        counting.wait_for_text("counting", 30)
        yield RunningCluster(plan, nodes, tmp_path)
    finally:
        process.kill()
        process.wait()


def printed_times(cluster: RunningCluster) -> list[float]:
    """Return the times that node 1 has printed so far; the last may be half a line."""
    return [float(line) for line in (cluster.folder / "out").read_text().splitlines()[1:-1]]


def until_more_is_printed(cluster: RunningCluster) -> None:
    """Wait for three more times, which a busy machine may let node 1 print much later."""
    known, deadline = len(printed_times(cluster)), time.monotonic() + 30
    while len(printed_times(cluster)) < known + 3:
        assert time.monotonic() < deadline, "node 1 prints nothing any more"
        time.sleep(0.01)


def test_a_paused_process_does_nothing_for_so_long_and_goes_on(cluster: RunningCluster) -> None:
    until_more_is_printed(cluster)
    with ExitStack() as running:
        carry_out(Pause(0, 1, 400), cluster, running)
        until_more_is_printed(cluster)
    times = printed_times(cluster)
    # A clock that is asked a little late on a busy machine makes it longer, never shorter.
    assert 1000 * max(after - before for before, after in pairwise(times)) > 390


def test_a_node_that_has_stopped_cannot_be_paused(cluster: RunningCluster) -> None:
    with ExitStack() as running, pytest.raises(LabError, match="does not run any more"):
        carry_out(Pause(0, 2, 10), cluster, running)


def children() -> set[psutil.Process]:
    """Return the processes that were started here, also those that ended unwaited for."""
    return set(psutil.Process().children())


def test_busy_processes_end_by_themselves(cluster: RunningCluster) -> None:
    others = children()
    with ExitStack() as running:
        carry_out(Busy(0, 2, 200), cluster, running)
        busy = children() - others
        assert len(busy) == 2
        gone, alive = psutil.wait_procs(busy, timeout=30)
    assert (set(gone), alive) == (busy, [])


def test_busy_processes_end_with_the_load_that_failed(cluster: RunningCluster) -> None:
    others = children()
    with ExitStack() as running:
        carry_out(Busy(0, 1, 600_000), cluster, running)
        (child,) = children() - others
        assert child.is_running()
    assert not child.is_running()
