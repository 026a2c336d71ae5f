"""The page about a broker of one's own, followed word for word, with the jars of Maven Central."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.workspace import Ran, make_clone, run_block
from tests.oracle.lab import free_ports

PAGE = ROOT / "docs" / "howto" / "own-broker.md"
RUN_HERE = [block for block in blocks(PAGE) if "test_own_broker.py" in (block.not_run or "")]
KAFKA_PORTS = ("9092", "9093")

needs_brokers = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("mvn", "java")),
    reason="mvn or java is not on PATH: no Kafka broker can be started",
)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Ran]]:
    """The folder in which the page's commands ran, in one shell, and what they printed."""
    clone = make_clone(tmp_path_factory.mktemp("own-broker"))
    # Another broker may listen where the page's does.
    ports = dict(zip(KAFKA_PORTS, map(str, free_ports(2)), strict=True))
    (clone / "examples").unlink()
    shutil.copytree(ROOT / "examples", clone / "examples")
    properties = clone / "examples" / "own-broker" / "server.properties"
    properties.write_text(_with_ports(properties.read_text(), ports))
    try:
        commands = _with_ports("\n".join(block.text for block in RUN_HERE), ports)
        yield clone, run_block(clone, commands)
    finally:
        _end_broker(clone)


def _with_ports(text: str, ports: dict[str, str]) -> str:
    for port, free in ports.items():
        text = text.replace(port, free)
    return text


def _end_broker(clone: Path) -> None:
    """End the broker where the commands did not come to it."""
    pid_file = clone / "artifacts" / "own-broker" / "pid"
    if not pid_file.is_file():
        return
    pid = int(pid_file.read_text())
    if psutil.pid_exists(pid) and str(clone) in " ".join(psutil.Process(pid).cmdline()):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.broker
@pytest.mark.spark
@needs_brokers
@pytest.mark.timeout(1800)
class TestABrokerOfYourOwn:
    def test_every_command_of_the_page_works(self, followed: tuple[Path, Ran]) -> None:
        _, ran = followed
        assert ran.exit_code == 0, ran.printed[-3000:]

    def test_its_archive_can_be_audited(self, followed: tuple[Path, Ran]) -> None:
        assert "artifacts/own-archive, cluster default: can be audited" in followed[1].printed

    def test_a_sound_broker_gives_no_finding_and_a_throttle_is_explained(
        self, followed: tuple[Path, Ran]
    ) -> None:
        assert "✓ Every quota was enforced as configured" in followed[1].printed
        assert "PRODUCE of user 'ANONYMOUS', client-id 'orders-app'" in followed[1].printed
        assert "It was throttled for" in followed[1].printed

    def test_the_wrong_broker_gives_a_critical_one(self, followed: tuple[Path, Ran]) -> None:
        said = "critical  controller_mutation_rate not enforced: client-id 'adminclient-1'"
        assert said in followed[1].printed

    def test_no_broker_is_left(self, followed: tuple[Path, Ran]) -> None:
        pid = int((followed[0] / "artifacts" / "own-broker" / "pid").read_text())
        assert not psutil.pid_exists(pid)


def test_the_page_has_commands_for_each_step() -> None:
    assert len(RUN_HERE) == 7
