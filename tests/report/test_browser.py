"""The report in a real browser: Debian's Chromium, driven by playwright. `make browser` installs what is needed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from psconrl.experiments import Experiment
from tests.report import stores

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup")

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
WORST = ("serious", "critical")
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
PATIENCE = 180_000
"""Milliseconds: a busy machine is slow, not wrong."""

Scheme = Literal["light", "dark"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed: make browser"),
    # One browser and one store for the whole file.
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("browser")
    (path / "report.html").write_text(stores.page(stores.small(path)), encoding="utf-8")
    return (path / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


class Visit:
    """An open page that keeps a record of complaints and of requests to anywhere but the file."""

    def __init__(self, browser: Any, address: str, size: dict[str, int] = DESK, scheme: Scheme = "light") -> None:
        self.context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=False)
        self.context.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.route("**/*", self._route)
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def _route(self, route: Any) -> None:
        self.requests.append(route.request.url)
        if route.request.url.startswith("file://"):
            route.continue_()
        else:
            route.abort()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    found = Visit(browser, address)
    yield found
    found.context.close()
    assert found.complaints == []
    assert found.requests == [address]


def test_everything_is_drawn(visit: Visit) -> None:
    page = visit.page
    for figure, panels, drawn in (("overview", 13, 12), ("averages", 13, 13)):
        assert page.locator(f"#figure-{figure} .panel").count() == panels
        assert page.locator(f"#figure-{figure} .panel svg .series > path").first.is_visible()
        assert page.locator(f"#figure-{figure} .panel svg.plot").count() == drawn
    shown = page.locator(".card:not([hidden])")
    assert shown.locator("svg.map .cell").count() > 0
    assert shown.count() == shown.locator("svg.map, table.matrix").count() == 16


def test_the_legend_hides_the_lines_of_an_agent(visit: Visit) -> None:
    figure = visit.page.locator("#figure-overview")
    button = figure.locator(".legend button[data-label='PSConRL']").first
    own, other = (figure.locator(f".series[data-label='{name}'] > path").first for name in ("PSConRL", "ConRL"))
    colors = [line.evaluate("e => getComputedStyle(e).stroke") for line in (own, other)]
    assert len(set(colors)) == 2
    assert own.is_visible()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not own.is_visible()
    assert other.is_visible()
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert own.is_visible()


def test_numbers_and_policies_as_tables(visit: Visit) -> None:
    strip = visit.page.locator("#figure-overview .strip").first
    strip.locator("summary").click()
    assert strip.locator("table").count() == 2
    assert strip.locator("table").first.locator("tbody tr").count() == 11
    card = visit.page.locator(".card[data-agent]").first
    card.locator("summary").click()
    card.locator("tbody tr").first.wait_for()
    assert card.locator("tbody tr").count() == 16


def test_a_slider_moves_the_policy(visit: Visit) -> None:
    card = visit.page.locator(".card[data-agent]").first
    slider, drawing, output = card.locator("input[type=range]"), card.locator(".drawing"), card.locator("output")
    last, words = drawing.inner_html(), output.inner_text()
    assert slider.input_value() == slider.get_attribute("max")
    slider.focus()
    visit.page.keyboard.press("Home")
    assert slider.input_value() == "0"
    assert drawing.inner_html() != last
    assert "Step 0" in output.inner_text() != words
    assert (slider.get_attribute("aria-valuetext") or "").startswith("step 0, plan 1 of")
    visit.page.keyboard.press("ArrowRight")
    assert slider.input_value() == "1"
    visit.page.keyboard.press("End")
    assert drawing.inner_html() == last


def test_sliders_move_together_or_alone(visit: Visit) -> None:
    world = visit.page.locator("[data-environment]").first
    first, second = (world.locator("input[type=range]").nth(k) for k in range(2))
    first.fill("0")
    assert second.input_value() == "0"
    first.fill(first.get_attribute("max") or "")
    assert second.input_value() == second.get_attribute("max")
    world.locator("[data-together]").uncheck()
    first.fill("0")
    assert second.input_value() == second.get_attribute("max")


def test_the_box_can_be_moved_and_agents_hidden(visit: Visit) -> None:
    world = visit.page.locator("[data-environment]").nth(1)
    drawing = world.locator(".card.best .drawing")
    before = drawing.inner_html()
    world.locator("[data-box]").select_option(index=3)
    assert drawing.inner_html() != before
    world.locator("[data-show='0']").click()
    assert not world.locator(".card[data-agent='0']").is_visible()
    world.locator("[data-show='0']").click()
    assert world.locator(".card[data-agent='0']").is_visible()


def test_play_runs_through_the_plans_and_stops(visit: Visit) -> None:
    world = visit.page.locator("[data-environment]").first
    slider = world.locator("input[type=range]").first
    world.locator("[data-play]").click()
    assert slider.input_value() != slider.get_attribute("max")
    assert world.locator("[data-play]").inner_text() == "Stop"
    world.locator("[data-play]").click()
    assert world.locator("[data-play]").inner_text() == "Play"


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_needs_sideways_scrolling(browser: Any, address: str, width: int) -> None:
    visit = Visit(browser, address, {"width": width, "height": 844})
    wide = visit.page.evaluate("document.documentElement.scrollWidth")
    visit.context.close()
    assert wide <= width


def test_every_control_can_be_reached_by_touch_and_is_large_enough(browser: Any, address: str) -> None:
    visit = Visit(browser, address, PHONE)
    small = visit.page.evaluate(
        "[...document.querySelectorAll('button, select, summary, input[type=range]')].filter(e => e.offsetParent)"
        ".filter(e => e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"
    )
    visit.context.close()
    assert small == []


def test_the_colours_can_be_chosen(visit: Visit) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = visit.page.evaluate(ground)
    visit.page.locator("#theme").select_option("dark")
    assert visit.page.evaluate(ground) != light


def test_it_prints_in_light_colours(browser: Any, address: str) -> None:
    visit = Visit(browser, address, scheme="dark")
    visit.page.emulate_media(media="print")
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not visit.page.locator("nav").is_visible()
    printed = visit.page.pdf()
    visit.context.close()
    assert printed.startswith(b"%PDF")


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make browser")
@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)], ids=["light-desk", "dark-phone"])
def test_accessibility(browser: Any, address: str, scheme: Scheme, size: dict[str, int]) -> None:
    visit = Visit(browser, address, size, scheme)
    visit.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    visit.page.locator(".rows table").first.wait_for()
    visit.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = visit.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    visit.context.close()
    assert not [_brief(violation) for violation in found if violation["impact"] in WORST]


def _brief(violation: dict[str, Any]) -> str:
    nodes = [node["html"][:120] for node in violation["nodes"][:3]]
    return f"{violation['id']} ({violation['impact']}): {json.dumps(nodes)}"


def test_actions_that_are_not_available_have_no_cell(browser: Any, tmp_path: Path) -> None:
    shop = Experiment.grid("shop", ["inventory"], ["PSConRL"], horizon=60, seeds=1)
    (tmp_path / "report.html").write_text(stores.page(stores.run(tmp_path, shop)), encoding="utf-8")
    found = Visit(browser, (tmp_path / "report.html").as_uri())
    drawn = found.page.locator("table.matrix").first.locator("tbody tr")
    assert [drawn.nth(s).locator("td.share").count() for s in range(drawn.count())] == [6, 5, 4, 3, 2, 1]
    found.context.close()
    assert found.complaints == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_long_names_are_whole_and_apart(browser: Any, tmp_path: Path, size: dict[str, int]) -> None:
    (tmp_path / "report.html").write_text(stores.page(stores.long_names(tmp_path)), encoding="utf-8")
    found = Visit(browser, (tmp_path / "report.html").as_uri(), size)
    drawn = found.page.locator(".card:not([hidden]) table.matrix")
    assert drawn.count() == 6
    for k in range(drawn.count()):
        names = drawn.nth(k).locator("tbody th").all_inner_texts()
        assert len(set(names)) == 30
        assert not [name for name in names if "…" in name]
        assert drawn.nth(k).evaluate(
            "table => [...table.querySelectorAll('th')].every(e => e.scrollWidth <= e.clientWidth + 1)"
        )
    pages = len(re.findall(rb"/Type\s*/Page\b", found.page.pdf(format="A4")))
    found.context.close()
    assert found.complaints == []
    assert pages < 12 or size == PHONE
