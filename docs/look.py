"""Pictures of pages as people see them: on a desk, on a telephone, in the dark, printed.

    python docs/look.py results/report.html docs/_build/html/index.html --out looks

For every page: NAME-desk.png (1280 pixels wide), NAME-dark.png, NAME-phone.png (390), NAME-print.png (A4, as printed)
and NAME.pdf. Says how many pages the print has, and what runs off the side. Needs what `make browser` installs.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

DESK, PHONE, PAPER = 1280, 390, 794
LOOKS = {"desk": (DESK, "light"), "dark": (DESK, "dark"), "phone": (PHONE, "light"), "print": (PAPER, "light")}
"""Widths in pixels, and colours."""

SHEET = re.compile(rb"/Type\s*/Page\b")

OUTSIDE = """() => {
  const scrolls = (e) => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const wide = (e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 2;
  return [...document.querySelectorAll('main *, article *')].filter((e) => wide(e) && !scrolls(e.parentElement))
    .slice(0, 3).map((e) => e.textContent.trim().slice(0, 40));
}"""
"""What is wider than the window and does not scroll in a place of its own."""


def look(browser: Any, page: Path, out: Path) -> None:
    """Take all pictures of a page."""
    for name, (width, scheme) in LOOKS.items():
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab = context.new_page()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_timeout(500)  # until all is drawn
        if name == "print":
            content = tab.pdf(path=out / f"{page.stem}.pdf", format="A4")
            print(f"{page}: {len(SHEET.findall(content))} pages printed")
            tab.emulate_media(media="print")
        for text in tab.evaluate(OUTSIDE):
            print(f"{page}, {name}: runs off the side: {text!r}")
        tab.screenshot(path=out / f"{page.stem}-{name}.png", full_page=True)
        context.close()


def main() -> None:
    """Take pictures of the pages that are named."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description="Pictures of pages at four sizes.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("looks"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for page in given.pages:
            look(browser, page, given.out)
        browser.close()


if __name__ == "__main__":
    main()
