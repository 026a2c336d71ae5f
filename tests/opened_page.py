"""A page opened in a real browser, and what the browser noticed."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def opened(browser: Browser, path: Path, size: str, scheme: str) -> tuple[Page, list[str]]:
    """Return the opened page, and what the browser complained about or asked the world for."""
    address = path.as_uri()
    width, height = SIZES[size]
    context = browser.new_context(
        offline=True,
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
            if request.url.startswith((address, "data:"))
            else noticed.append(f"request: {request.url}")
        ),
    )
    page.goto(address)
    return page, noticed
