"""A browser that shows pages, and checks that they say nothing and ask for nothing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium, which shows the pages, is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a page, and checks at the end that it said nothing and asked for nothing."""
    contexts: list[Any] = []
    noises: list[str] = []

    def opened(page: Any, width: int = 1400, scheme: str = "light", **options: Any) -> Any:
        path = tmp_path / "page.html"
        page.save(path)
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: noises.append(message.text))
        shown.on("pageerror", lambda error: noises.append(str(error)))
        shown.on("request", lambda request: request.url != path.as_uri() and noises.append(request.url))
        shown.goto(path.as_uri())
        shown.wait_for_selector("html.ready")
        return shown

    opened.expected = "^$"  # type: ignore[attr-defined]  # what a test itself makes the browser say
    yield opened
    for context in contexts:
        context.close()
    assert [noise for noise in noises if not re.search(opened.expected, noise)] == []  # type: ignore[attr-defined]


def wait_until_drawn(shown: Any) -> None:
    """Waits until the page has drawn what is due: events of scrolling and of media come with a frame, too."""
    shown.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def wait_until(shown: Any, condition: str) -> None:
    """Waits until something holds, in JavaScript; Playwright's own function needs `eval`, which pages refuse."""
    otherwise = json.dumps(f"it never holds: {condition}")
    shown.evaluate(
        f"""new Promise((done, failed) => {{
            const look = (frames) =>
                ({condition}) ? done() : frames ? requestAnimationFrame(() => look(frames - 1)) : failed({otherwise});
            look(600);
        }})"""
    )


def text_of(shown: Any, selector: str) -> str:
    text: str = shown.inner_text(selector)
    return re.sub(r"\s+", " ", text).strip()
