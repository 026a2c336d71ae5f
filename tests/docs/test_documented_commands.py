"""Commands in the documentation run as they stand, and print what the pages show.

Each ```bash block is run, in the order of the pages and in one folder, or says in a comment
right before it why it is not. A ```text block right behind a block that is run is its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, blocks_of, name_of, pages
from tests.docs.workspace import Ran, first_difference, make_clone, run_block

BLOCKS = [block for page in pages() for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
RUN = [block for block in SHELL if block.not_run is None]
LANGUAGES = {"bash", "text", "json", "python", "toml", "yaml", "ini"}
# A line that begins so is a command, whatever its block says it is.
COMMAND = re.compile(
    r"^\s*(\$ |(\S*/)?quota-audit (?!.*\[OPTIONS\])|make [a-z]|docker |airflow )", re.M
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert not block.is_indented, f"{block}: write it as a fenced block that names its language"
    assert block.language in LANGUAGES, f"{block}: {block.language!r}, not one of {LANGUAGES}"
    if block.language != "bash":
        assert not COMMAND.search(block.text), f"{block}: a command; write it as a bash block"


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command_has_no_placeholder_where_it_is_run(block: Block) -> None:
    if block.not_run is not None:
        assert len(block.not_run.split()) > 2, f"{block}: say why it is not run"
        return
    held = re.search(r"\b(ARCHIVE|DIR|FILE|DAY|HOST|TARGET)\b", block.text)
    assert not held, f"{block}: {held and held[0]} is the reader's; say `<!-- not run: … -->`"


def test_what_is_neither_run_nor_marked_would_be_seen() -> None:
    page = (
        "a\n```bash\ntrue\n```\n```text\nx\n```\n<!-- not run: needs a moon -->\n```bash\ngo\n```\n"
    )
    first, shown, second = blocks_of(page, "p.md")
    assert (first.not_run, first.output, second.not_run) == (None, "x\n", "needs a moon")
    assert shown.output is None


@pytest.mark.parametrize(
    ("shown", "printed", "difference"),
    [
        ("a\n…\nc", "a\nb\nb\nc", None),
        ("took … s", "took 1.5 s", None),
        ("took … ms", "took 1.5 s", "took … ms"),
        ("a", "a\nb", "(nothing more, but printed was) b"),
        ("a\n…", "a\nb", None),
        ("b\na", "a\nb", "b"),
        ("a", "WARNING: Using incubator modules: x\na", None),
    ],
)
def test_what_is_shown_is_compared(shown: str, printed: str, difference: str | None) -> None:
    assert first_difference(shown, printed) == difference


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Ran]]]:
    ran: dict[str, Ran] = {}
    yield make_clone(tmp_path_factory.mktemp("docs")), ran
    took = sum(one.seconds for one in ran.values())
    print(f"\n{len(ran)} blocks of the documentation ran in {took:.0f} s")


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", RUN, ids=str)
def test_a_command_runs_and_prints_what_is_shown(
    block: Block, clone: tuple[Path, dict[str, Ran]]
) -> None:
    folder, ran = clone
    for earlier in RUN[: RUN.index(block) + 1]:
        # One that is run alone needs what those before it have made.
        if str(earlier) not in ran:
            ran[str(earlier)] = run_block(folder, earlier.text)
    mine = ran[str(block)]
    assert mine.exit_code == 0, f"{block} ended with {mine.exit_code}:\n{mine.printed[-3000:]}"
    if block.output is not None:
        difference = first_difference(block.output, mine.printed)
        assert difference is None, f"{block} shows {difference!r}; printed was:\n{mine.printed}"


def test_pages_that_promise_commands_have_some_that_are_run() -> None:
    assert {name_of(page) for page in pages()} >= {block.page for block in RUN}
    for name in ("docs/tutorial.md", "docs/explain.md", "docs/howto/own-archive.md", "README.md"):
        assert any(block.page == name for block in RUN), f"no command of {name} is run"
