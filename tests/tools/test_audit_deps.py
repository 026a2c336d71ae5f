"""pip-audit needs the network, so `make audit-deps` is run by hand: here another one answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.audit_deps import WITHOUT_ANSWER_MAX, locked, main

ROOT = Path(__file__).parents[2]
FAKE = """
import json, sys
from pathlib import Path
Path("asked").open("a").write("x")
options, file = sys.argv[1:-1], Path(sys.argv[-1])
assert {"--format=json", "--disable-pip", "--no-deps"} <= set(options) and options[-1] == "-r"
packages = [line.split("==") for line in file.read_text().split()]
if any(name.startswith("down") for name, _ in packages):
    sys.exit("ServiceError: no answer")
answers = {
    "unknown": {"skip_reason": "Dependency not found on PyPI"},
    "old": {"vulns": [{"id": "PYSEC-1", "fix_versions": ["2.0"]}]},
}
known = [{"name": n, "version": v} | answers.get(n, {"vulns": []}) for n, v in packages]
known = [{k: x for k, x in one.items() if k != "version" or "vulns" in one} for one in known]
print(json.dumps({"dependencies": known}))
sys.exit(any(name == "old" for name, _ in packages))
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake.py").write_text(FAKE)
    return f"{sys.executable} fake.py"


def audit(fake: str, *names: str) -> int:
    text = "".join(f"{name}==1.0 \\\n    --hash=sha256:00\n    # via x==9\n" for name in names)
    Path("lock.txt").write_text(text)
    return main(["lock.txt", "--pip-audit", fake])


def test_all_that_have_an_answer_and_no_advisory_are_good(
    fake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(fake, "a", "b", "c") == 0
    assert capsys.readouterr().out == (
        "3 of 3 packages were looked up: 0 advisories, 0 without an answer.\n"
    )


def test_a_package_without_an_answer_hides_none_of_the_others_and_is_no_success(
    fake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"p{number}" for number in range(60)]
    assert audit(fake, *names[:40], "down", *names[40:], "old", "unknown") == 1
    assert capsys.readouterr().out.splitlines() == [
        "old==1.0: PYSEC-1, mended in 2.0",
        "down==1.0 could not be looked up: ServiceError: no answer",
        "unknown could not be looked up: Dependency not found on PyPI",
        "61 of 63 packages were looked up: 1 advisories, 2 without an answer.",
    ]
    assert audit(fake, "a", "unknown") == 1
    assert audit(fake, "a", "down") == 1


def test_without_a_network_it_ends_soon(fake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(fake, *(f"down{number}" for number in range(500))) == 1
    assert "0 of 500 packages were looked up: 0 advisories, 500 without" in capsys.readouterr().out
    assert len(Path("asked").read_text()) < 5 * WITHOUT_ANSWER_MAX


def test_every_package_of_every_lock_is_asked_for() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", "audit-deps", f"UV={ROOT}/.uv/bin/uv"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r"pip-audit==\d+\.\d+\.\d+", recipe)
    names = re.findall(r"\S+\.txt", recipe.replace("-r requirements-build.txt\n", "\n"))
    assert set(names) == {f"requirements{kind}.txt" for kind in ("", "-build", "-dev")}
    packages = locked([ROOT / name for name in names])
    assert len(packages) > 200
    assert "pyspark==4.3.0" in packages
