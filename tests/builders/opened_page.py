"""A page opened in a real browser, and what the browser noticed."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def opened(browser: Browser, path: Path, size: str, scheme: str) -> tuple[Page, list[str]]:
    """Return a file opened without a network, and what the browser complained about or asked."""
    address = path.as_uri()
    page, noticed = watched_page(browser, address, size, scheme, is_offline=True)
    page.goto(address)
    return page, noticed


def watched_page(
    browser: Browser, origin: str, size: str, scheme: str, *, is_offline: bool = False
) -> tuple[Page, list[str]]:
    """Return an empty page, and a list that grows with each complaint, dialog and request.

    Of requests only those are noticed that go elsewhere than to addresses that begin with
    ``origin``.
    """
    width, height = SIZES[size]
    context = browser.new_context(
        offline=is_offline,
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    noticed: list[str] = []
    page.on("console", lambda message: noticed.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: noticed.append(f"error: {error}"))
    page.on("dialog", lambda dialog: noticed.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((origin, "data:", "blob:" + origin))
            else noticed.append(f"request: {request.url}")
        ),
    )
    return page, noticed
