"""S3 on this machine's loopback: moto's server, in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import S3FileSystem

LOCK = Path(__file__).parent / "moto.txt"
CACHE = Path(__file__).resolve().parents[2] / ".cache"
KEY, SECRET = "a-key-of-the-tests", "a-secret-of-the-tests"
_START_S = 120.0
_NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A running service; buckets in it are one test's or one module's each."""

    endpoint: str

    def environment(self) -> dict[str, str]:
        """Return what AWS's tools, Arrow's and Spark's S3 clients are told it by."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> S3FileSystem:
        """Return a client that may make buckets."""
        return S3FileSystem(
            access_key=KEY, secret_key=SECRET, region="us-east-1",
            endpoint_override=self.endpoint, allow_bucket_creation=True,
        )  # fmt: skip

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let it look at credentials, and so refuse these, while the block lasts."""
        self._look_at_credentials_after(0)
        try:
            yield
        finally:
            self._look_at_credentials_after(_NEVER)

    def _look_at_credentials_after(self, requests: int) -> None:
        asked = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth",
            str(requests).encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked).close()


@contextmanager
def object_storage(folder: Path) -> Iterator[ObjectStorage]:
    """Run the service while the block lasts, its log in ``folder``; TimeoutError with the log."""
    log = folder / "moto.log"
    command = [str(_programs() / "moto_server"), "-H", "127.0.0.1", "-p", "0"]
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield ObjectStorage(_endpoint(log, server))
    finally:
        server.terminate()
        server.wait()


def _endpoint(log: Path, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _START_S
    while not (
        found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text(errors="replace"))
    ):
        if server.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"moto's server did not come up: {log.read_text(errors='replace')}")
        time.sleep(0.05)
    return found[1]


def _programs() -> Path:
    """Return the programs of the environment that LOCK describes, made where it is missing."""
    home = CACHE / f"moto-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if not home.is_dir():
        CACHE.mkdir(exist_ok=True)
        # Made aside and renamed, so that a stopped or parallel run never leaves half of it.
        with tempfile.TemporaryDirectory(dir=CACHE) as aside:
            made = Path(aside) / "moto"
            _uv("venv", "--quiet", "--relocatable", "--python", sys.executable, str(made))
            install = ("pip", "install", "--quiet", "--no-deps", "--require-hashes")
            _uv(*install, "--python", str(made), "-r", str(LOCK))
            try:
                made.rename(home)
            except OSError:  # another run was first
                assert home.is_dir()
    return home / "bin"


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"uv {' '.join(arguments)} failed: {done.stderr[-2000:]}")
