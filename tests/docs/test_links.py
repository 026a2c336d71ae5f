"""Every link in the documentation leads somewhere, and every page can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import INDEX, ROOT, anchors, links, local_target, name_of, pages

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_within_the_project_resolves(page: Path) -> None:
    for link in links(page):
        target = local_target(page, link)
        if target is None:
            continue
        path, anchor = target
        assert path.exists(), f"{name_of(page)} links {link}: there is no {path}"
        assert path.is_relative_to(ROOT.resolve()), f"{name_of(page)} links {link}: outside"
        if anchor:
            assert path.suffix == ".md", f"{name_of(page)} links {link}: an anchor of no page"
            assert anchor in anchors(path), (
                f"{name_of(page)} links {link}: no such heading; there are {sorted(anchors(path))}"
            )


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [INDEX.resolve()]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.is_file():
            continue
        reached.add(page)
        targets = [local_target(page, link) for link in links(page)]
        waiting += [path for path, _ in filter(None, targets) if path.suffix == ".md"]
    missed = [name_of(page) for page in PAGES if page.resolve() not in reached]
    assert missed == [], f"link these from docs/index.md or from a page that it links: {missed}"


def test_the_readme_links_the_index() -> None:
    assert "docs/index.md" in links(ROOT / "README.md")
