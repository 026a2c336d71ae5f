"""What a scenario does to nodes and their machine while clients load them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.oracle.lab import RunningCluster
from tests.oracle.lab_process import LabError
from tests.oracle.node_process import NodeProcess
from tests.oracle.scenario import Busy, LabStep, Pause, Restart

_ELECTION_SECONDS = 60
_POLL_SECONDS = 0.1
_BUSY = """\
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""


def carry_out(step: LabStep, cluster: RunningCluster, running: ExitStack) -> None:
    """Do one step, and return when it is over; ``LabError`` when the cluster does not recover.

    ``Busy`` goes on beside what follows, until ``running`` is left at the latest.
    """
    if isinstance(step, Restart):
        _restart(cluster.node(step.node_id))
    elif isinstance(step, Pause):
        _pause(cluster.node(step.node_id), step.duration_ms)
    elif isinstance(step, Busy):
        for _ in range(step.processes):
            running.enter_context(_busy_process(step.duration_ms))
    else:
        _fail_over(cluster)


def _restart(process: NodeProcess) -> None:
    process.stop()
    process.start()
    process.wait_until_started()


def _pause(process: NodeProcess, duration_ms: int) -> None:
    if not process.is_running:
        raise LabError(f"{process.name} does not run any more and cannot be paused")
    node = process.process_id
    # A process of its own lets the node go on, even where this one is killed meanwhile.
    go_on = ["sh", "-c", f"sleep {duration_ms / 1000}; kill -CONT {node}"]
    later = subprocess.Popen(go_on, start_new_session=True)
    os.kill(node, signal.SIGSTOP)
    try:
        later.wait()
    finally:
        os.kill(node, signal.SIGCONT)
        later.wait()


@contextmanager
def _busy_process(duration_ms: int) -> Iterator[None]:
    """Keep one core busy: the process ends by itself, and at the end of the block at the latest."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY, str(duration_ms / 1000)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _fail_over(cluster: RunningCluster) -> None:
    leader = max(cluster.nodes, key=NodeProcess.leader_epoch)
    epoch = leader.leader_epoch()
    if epoch == 0 or len(cluster.plan.controllers) < 2:
        raise LabError("a failover needs the layout `dedicated`, whose quorum can lose its leader")
    leader.stop()
    deadline = time.monotonic() + _ELECTION_SECONDS
    while max(process.leader_epoch() for process in cluster.nodes) <= epoch:
        if time.monotonic() > deadline:
            raise LabError(f"no controller led {_ELECTION_SECONDS} s after {leader.name} stopped")
        time.sleep(_POLL_SECONDS)
