"""A page in a real browser: Chromium through its driver, told not to speak to anybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver (Debian: chromium, chromium-driver)"
)
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip

STICKS_OUT = """
const wide = document.documentElement.clientWidth, found = [];
const scrolls = (e) => { for (; e; e = e.parentElement)
  if (["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) && e !== document.body) return true; };
for (const e of document.body.querySelectorAll("*")) {
  const box = e.getBoundingClientRect();
  if (box.width && (box.right > wide + 1 || box.left < -1) && !scrolls(e.parentElement))
    found.push(e.tagName + "." + (e.getAttribute("class") || "") + " " + e.textContent.slice(0, 40));
}
return [document.documentElement.scrollWidth - wide, found.slice(0, 5)];
"""
"""What lies outside the window, and by how much the page is too wide."""


@contextmanager
def started(profile: Path) -> Iterator[Any]:
    """A browser with a profile of its own, headless."""
    selenium = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def show(browser: Any, page: Path, width: int = 1280, scheme: str = "light") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.get(page.as_uri())
