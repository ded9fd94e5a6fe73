"""The page that watches a learner, in a real browser; `make browser` installs what is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

import psconrl
from psconrl.learning.durable import DurableLearner
from psconrl.service.app import create_app
from tests.report.test_browser import AXE, BROWSER, DESK, PHONE, Scheme, browser  # noqa: F401  browser: a fixture

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed: make browser"),
    pytest.mark.xdist_group("browser"),
]

HOSTILE = ["<img src=x onerror=alert(1)>", "__proto__", "constructor", "x" * 150, "a\nb", "'\"`${1}</script>", ""]


def step(learner: DurableLearner, number: int) -> None:
    """Of two limits only one can hold: each action has a cost of one in one of them."""
    state, after = (HOSTILE[n % len(HOSTILE)] for n in (number, number + 1))
    decision = learner.ask(state, HOSTILE[number % 5])
    serves = decision.action == "<b>serve</b>"
    learner.tell(decision.id, [1e11 * number, float(serves), float(not serves)], after)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DurableLearner, str]]:
    problem = psconrl.Problem(
        None,
        ["<b>serve</b>", "wait"],
        {"constructor": 0.1, "<script>alert(1)</script>": 0.05},
        cost_ranges=[(0, 1e15), (0, 1), (0, 1)],
        cost_names=["__proto__", "constructor", "<script>alert(1)</script>"],
    )
    with psconrl.Learner.open(tmp_path_factory.mktemp("page") / "learner.db", problem=problem) as learner:
        for number in range(200):
            step(learner, number)
        learner.ask("waiting")
        app = create_app(learner, title="<h1>Ward</h1>", units=("<u>", "h", ""))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield learner, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "light"), (DESK, "dark")])
def test_the_page_is_live_and_takes_names_for_names(
    served: tuple[DurableLearner, str],
    browser: Any,  # noqa: F811
    size: dict[str, int],
    scheme: Scheme,
) -> None:
    learner, address = served
    complaints: list[str] = []
    requests: list[str] = []
    context = browser.new_context(viewport=size, color_scheme=scheme)
    context.set_default_timeout(180_000)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)

    page.locator("#estimate tbody tr").first.wait_for()
    assert page.title() == page.inner_text("h1") == "<h1>Ward</h1>"
    cards = page.locator("#limits .card").all_inner_texts()
    assert ["exceeded by" in card for card in cards] == [False, True, True]
    assert "NaN" not in page.inner_text("main")
    assert "cannot all be kept" in page.inner_text("#conflict")
    assert "1 decision pending, 0 of them expired." in page.inner_text("#waiting")
    page.locator("#policy button").first.focus()
    page.keyboard.press("Enter")
    page.locator("#why", has_text="In ").wait_for()
    page.fill("#search", "SCRIPT")
    page.locator("#range", has_text="of 1 states").wait_for()

    before = learner.status()["steps"]
    step(learner, before)
    page.locator("#live", has_text=f"{before + 1} steps").wait_for()

    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run()")["violations"] == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    assert complaints == []
    assert all(url.startswith((address, "data:")) for url in requests)
    context.close()
