"""A registry is not reached by tests: here another command says what a tag stands for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tools.renew_images import INSPECT, main

ROOT = Path(__file__).parents[2]
OLD, NEW = f"sha256:{'0' * 64}", f"sha256:{'a' * 64}"
TEXT = f"FROM python:3.11-slim@{OLD} AS wheel\nFROM wheel\nimage: a.b-c/postgres:17.6@{OLD}\n"
FAKE = """
import sys
(tag,) = sys.argv[1:]
if tag == "gone:1":
    sys.exit("ERROR: gone:1: not found")
print("v2" if tag == "odd:1" else "sha256:" + ("a" if "postgres" in tag else "0") * 64)
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("fake.py").write_text(FAKE)
    Path("Dockerfile").write_text(TEXT)
    return ["Dockerfile", "--inspect", f"{sys.executable} fake.py"]


def test_a_tag_that_stands_for_another_image_is_written_and_told(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(asked) == 0
    assert Path("Dockerfile").read_text() == TEXT.replace(f"17.6@{OLD}", f"17.6@{NEW}")
    assert capsys.readouterr().out == (
        f"python:3.11-slim: as it was\na.b-c/postgres:17.6: {OLD} is {NEW} now\n"
    )


@pytest.mark.parametrize(("tag", "why"), [("gone:1", "ERROR: gone:1: not found"), ("odd:1", "v2")])
def test_without_an_answer_nothing_is_changed(
    asked: list[str], capsys: pytest.CaptureFixture[str], tag: str, why: str
) -> None:
    text = f"{TEXT}FROM {tag}@{OLD}\n"
    Path("Dockerfile").write_text(text)
    assert main(asked) == 1
    assert capsys.readouterr().err == f"{tag} has no digest: {why} Nothing is changed.\n"
    assert Path("Dockerfile").read_text() == text
    assert main(["Dockerfile", "--inspect", "/no/docker"]) == 1


def test_every_image_that_is_not_ours_is_named_by_its_digest_and_renewed() -> None:
    make = (ROOT / "Makefile").read_text()
    (files,) = re.findall(r"tools\.renew_images (.+)", make)
    assert files.split() == ["docker/Dockerfile", "docker/compose.yaml"]
    for name in files.split():
        text = (ROOT / name).read_text()
        images = re.findall(r"^(?:FROM|\s+image:) (\S+)", text, re.MULTILINE)
        foreign = [image for image in images if not image.startswith("quota-audit:")]
        assert len(foreign) == 2
        for image in foreign:
            assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image)
    assert INSPECT.startswith("docker buildx imagetools inspect ")
