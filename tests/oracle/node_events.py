"""What a scenario does to nodes while clients load them."""

from __future__ import annotations

import time

from tests.oracle.lab import RunningCluster
from tests.oracle.lab_process import LabError
from tests.oracle.node_process import NodeProcess
from tests.oracle.scenario import Failover, Restart

_ELECTION_SECONDS = 60
_POLL_SECONDS = 0.1


def carry_out(step: Restart | Failover, cluster: RunningCluster) -> None:
    """Do one step, and return when it is over; ``LabError`` when the cluster does not recover."""
    if isinstance(step, Restart):
        _restart(cluster.node(step.node_id))
    else:
        _fail_over(cluster)


def _restart(process: NodeProcess) -> None:
    process.stop()
    process.start()
    process.wait_until_started()


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
