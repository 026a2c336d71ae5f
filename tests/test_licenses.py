"""What the wheel holds of others comes with their licenses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
APACHE = "Apache License"
BSD = "Redistributions in binary form must reproduce the above copyright notice"
MIT = "The above copyright notice and this permission notice shall be included"
ECHARTS = "quota_pages/static/echarts.common.min.js"
MESSAGES = "spark_jobs/ingest/messages/kafka_messages/"
# Where others' files begin → the licenses of what they hold, each with its holder and its words.
BUNDLED = {
    MESSAGES: {"LICENSE": ("", APACHE)},
    ECHARTS: {
        "LICENSE": ("", APACHE),
        "licenses/LICENSE-d3": ("Mike Bostock", BSD),
        "licenses/LICENSE-zrender": ("Baidu Inc.", BSD),
        "licenses/LICENSE-tslib": ("Microsoft Corporation", "any\npurpose with or without fee"),
        "licenses/LICENSE-snabbdom": ("Simon Friis Vindum", MIT),
        "licenses/LICENSE-timsort": ("Marco Ziccardi", MIT),
        "licenses/LICENSE-tween.js": ("Tween.js authors", MIT),
    },
}
# What says that a file is somebody else's, or that a tool has made it of others'.
OF_OTHERS = re.compile(rb"copyright\s+(?:\(c\)|\d{4})|licensed (?:to|under)|@license", re.I)
LONG_LINE_BYTES = 2000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of the wheel, built as `make package` does, by their names in it."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    rooms = ("spark_jobs/", "plugins/", "dags/", "expectations/", "licenses/")
    for name in listed.stdout.splitlines():
        if name.startswith(rooms) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--require-hashes",
         "--build-constraints", "requirements-build.txt", "--out-dir", "dist"],
        cwd=source, check=True,
    )  # fmt: skip
    (made,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(made) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_every_file_of_others_has_its_licenses_in_the_wheel(wheel: dict[str, bytes]) -> None:
    licenses = {
        name.partition("/licenses/")[2]: text.decode()
        for name, text in wheel.items()
        if "/licenses/" in name
    }
    for begin, wanted in BUNDLED.items():
        assert [name for name in wheel if name.startswith(begin)], begin
        for name, (holder, words) in wanted.items():
            assert holder in licenses[name], name
            assert words in licenses[name], name
            assert holder in licenses["NOTICE"], name
            assert name.rpartition("/")[2] in licenses["NOTICE"], name
    known = {name for wanted in BUNDLED.values() for name in wanted} | {"NOTICE"}
    assert set(licenses) == known


def test_no_other_file_of_the_wheel_is_of_others(wheel: dict[str, bytes]) -> None:
    found = {
        name
        for name, text in wheel.items()
        if ".dist-info/" not in name
        and (
            OF_OTHERS.search(text) or max(map(len, text.splitlines()), default=0) > LONG_LINE_BYTES
        )
    }
    assert ECHARTS in found, "the test would see one"
    assert [name for name in found if not name.startswith(tuple(BUNDLED))] == []


def test_the_notice_says_what_each_file_is_a_copy_of(wheel: dict[str, bytes]) -> None:
    notice = (ROOT / "NOTICE").read_text()
    version = re.search(rb't.version="([0-9.]+)"', wheel[ECHARTS])
    assert version is not None
    assert f"in the npm package echarts {version[1].decode()}" in notice
    assert MESSAGES in notice
