import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psconrl import evaluate, make, report, solve
from psconrl.analysis import group
from psconrl.errors import InvalidArgumentError
from psconrl.experiments import Cell, Experiment, Store
from psconrl.report import Level, Line, Panel, Section, Table, policies
from psconrl.report.environments import EnvironmentRuns, distinct, environments
from psconrl.report.html import embedded, render
from tests.report import stores
from tests.report.stores import run

NASTY = '</script><script>alert(1)</script><!--&\u2028 $\\frac$ " style="x: url(y)"'


class Page(HTMLParser):
    """What the tests ask of a page: its elements, its ids and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": [], "pre": []}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside][-1] += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = attributes.items()
        return [a for name, a in self.elements if name == tag and all(a.get(k) == v for k, v in wanted)]

    @property
    def data(self) -> list[dict[str, Any]]:
        return list(json.loads(self.texts["script"][0]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stores.small(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def text(store: Store) -> str:
    return stores.page(store)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def environments_of(store: Store) -> list[EnvironmentRuns]:
    return environments(store, group(store.records()))


def test_the_page_refers_to_nothing_outside_and_has_no_styles_or_scripts_inside_elements(page: Page) -> None:
    for _, attributes in page.elements:
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    assert not page.all("link")
    assert len(page.texts["style"]) == 1
    assert not re.search(r"@import|url\(|https?:", page.texts["style"][0])


def test_the_security_policy_names_the_scripts_and_styles(page: Page) -> None:
    (policy,) = [a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    for kind, content in (("script", page.texts["script"][1]), ("style", page.texts["style"][0])):
        checksum = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{checksum}'" in policy
    assert "unsafe" not in policy


def test_structure(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert page.texts["title"][0].startswith("small, others, infeasible and 1 more")
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids)), "also those inside drawings"
    for link in page.all("a"):
        assert (link["href"] or "").removeprefix("#") in ids
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    labelled = {a["for"] for a in page.all("label") if "for" in a}
    sliders = page.all("input", type="range")
    assert len(sliders) == 10
    assert {a["id"] for a in sliders} <= labelled


def test_equal_stores_make_equal_pages(store: Store, text: str) -> None:
    assert stores.page(Store(store.path)) == text


def test_data_cannot_leave_its_element() -> None:
    written = embedded({"name": NASTY})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {"name": NASTY}


def test_names_are_escaped(tmp_path: Path) -> None:
    model = tmp_path / "<b>model&.npz"
    cmdp = make("toy").replace(state_names=[NASTY, "right"], cost_names=[NASTY + "0", NASTY + "1"])
    cmdp.save(model)
    store = run(tmp_path / "store", Experiment.grid(NASTY, [str(model)], ["PSConRL"], horizon=60, seeds=1))
    panel = Panel(NASTY, NASTY, [Line(NASTY, *np.ones((4, 3)))], [Level(NASTY, 1.0, "optimal")])
    found = stores.page(store, Section(NASTY, [NASTY], {NASTY: [[panel]]}, [Table([NASTY], [[NASTY]], NASTY)]))
    page = Page(found)
    assert len(page.all("script")) == 2
    assert "<b>model" not in found
    assert "<!--" not in found
    assert "alert(1)</script>" not in found
    assert not any("style" in attributes for _, attributes in page.elements)
    assert NASTY in {attributes.get("data-label") for attributes in page.all("g", **{"class": "series"})}
    assert page.data[0]["states"][0] == NASTY


def test_the_page_needs_nothing_but_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model file that changed or went is drawn as it was run; nothing is built or solved again."""
    path = tmp_path / "model.npz"
    make("toy").save(path)
    store = run(tmp_path / "store", Experiment.grid("own", [str(path)], ["PSConRL"], horizon=60, seeds=1))
    before = policies.document(environments_of(store)[0])
    assert before["states"] == ["left", "right"]
    assert before["optimal"]["averages"] == pytest.approx([0.4725, 0.5275])
    path.unlink()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the report builds or solves a model")

    for name in ("environments.make", "planning.solve", "planning.evaluate", "cmdp.CMDP.__init__"):
        monkeypatch.setattr(f"psconrl.{name}", never)
    assert policies.document(environments_of(store)[0]) == before
    stores.page(store)


def test_runs_that_say_nothing_about_their_model_are_shown_without_it(tmp_path: Path) -> None:
    """Those of a store without the first seed, or made before models were described."""
    store = run(tmp_path / "store", Experiment.grid("own", ["toy"], ["PSConRL"], horizon=60, seeds=2))
    (file,) = (file for file in store.files() if file.seed == 0)
    file.path.unlink()
    (env,) = environments_of(store)
    content = policies.document(env)
    assert content["optimal"] is None
    assert content["states"] == ["0", "1"]
    assert not Page(render(store, [env])).all("div", **{"class": "card best"})


def test_policies_on_the_page_are_those_of_the_store(store: Store, page: Page) -> None:
    records = {r.cell: r for r in store.records() if r.seed == 0}
    found = environments_of(store)
    assert [env.record.env for env in found] == ["marsrover-4x4", "box", "toy", "toy", "queue", "dirichlet"]
    assert [env.shared for env in found] == [True, True, True, True, True, False]
    for env, content in zip(found, page.data, strict=True):
        for agent, shown in zip(env.agents, content["agents"], strict=True):
            record = records[agent.group.cell]
            assert len(shown["snapshots"]) == len(record.snapshots)
            for snapshot, entry in zip(record.snapshots, shown["snapshots"], strict=True):
                assert entry["start"] == snapshot.start
                assert entry["visits"] == snapshot.visits.sum(axis=1).tolist()
                np.testing.assert_allclose(decoded(entry["policy"], record.actions), snapshot.policy[0], atol=6e-4)
                row = record.episodes[entry["plan"] - 1]
                assert row["start"] == snapshot.start
                assert (entry["feasible"], entry["length"]) == (row["feasible"], row["length"])


def test_averages_on_the_page_are_exact(store: Store, page: Page) -> None:
    cmdp, content = make("marsrover-4x4"), page.data[0]
    assert content["optimal"]["averages"] == pytest.approx([0.775, 0.2])
    assert sum(content["optimal"]["share"]) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(decoded(content["optimal"]["policy"], 4), solve(cmdp).policy, atol=6e-4)
    record = next(r for r in store.records() if r.env == "marsrover-4x4" and r.agent == "PSConRL")
    exact = evaluate(cmdp, record.snapshots[-1].policy[0]).average_costs @ cmdp.initial
    assert content["agents"][0]["snapshots"][-1]["averages"] == pytest.approx(exact, abs=1e-6)


def decoded(policy: list[Any], A: int) -> np.ndarray[Any, Any]:
    return np.array([np.eye(A)[entry] if isinstance(entry, int) else np.array(entry) / 1000 for entry in policy])


def test_large_runs_are_thinned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record = next(store.records())
    monkeypatch.setattr(policies, "MAX_ENTRIES", 5 * record.states)
    kept = policies.snapshots(record)
    assert len(kept) == 5
    assert (kept[0], kept[-1]) == (record.snapshots[0], record.snapshots[-1])


def test_models_too_large_are_described_not_drawn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "DESCRIBED", 20)
    monkeypatch.setattr("psconrl.report.environments.DESCRIBED", 20)
    found = environments_of(store)
    page = Page(render(store, found))
    box = page.data[1]
    assert box["optimal"] is None
    assert [agent["snapshots"] for agent in box["agents"]] == [[], []]
    assert len(box["states"]) == 20
    assert len(page.all("input", type="range")) == 8


def test_agents_that_repeat_are_told_apart(tmp_path: Path) -> None:
    cells = [Cell("toy", "ConRL", T, settings={"scale": s}) for s, T in ((0.1, 20), (1.0, 20), (1.0, 30))]
    store = run(tmp_path, Experiment("x", tuple(cells), (1, 1, 1)))
    labels = distinct(list(group(store.records()).values()))
    assert sorted(labels) == ["ConRL, scale=0.1, T=20", "ConRL, scale=1.0, T=20", "ConRL, scale=1.0, T=30"]


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    Store(tmp_path / "runs", create=True)
    (page,) = report.write(tmp_path / "runs", tmp_path)
    assert page == tmp_path / "report.html"
    assert Page(page.read_text(encoding="utf-8")).data == []


def test_sections_of_a_users_own(tmp_path: Path) -> None:
    store = run(tmp_path / "runs", Experiment.grid("x", ["toy"], ["Uniform"], horizon=20, seeds=2))
    (found,) = group(store.records()).values()
    panel = Panel("Cost so far", "cost", [report.line("Uniform", found.grid, found.cumulative[:, 0])])
    own = Section("My heading", ["My text."], {"mine": [[panel]]}, [Table(("a", "b"), [("1", "2")])])
    paths = report.write(store, tmp_path / "out", [own])
    assert {tmp_path / "out" / "figures" / f"mine.{kind}" for kind in ("png", "pdf")} <= set(paths)
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "My heading" in text
    assert "My text." in text
    with pytest.raises(InvalidArgumentError):
        Table(("a", "b"), [("1",)])


def test_failures_and_mixtures_are_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = environments_of(store)
    assert not Page(render(store, found)).all("p", **{"class": "warning"})[1:]  # one about scripts is always there
    first = found[0].groups[0]
    monkeypatch.setattr(type(store), "failures", lambda self: [Path("a"), Path("b")])
    monkeypatch.setitem(first.__dict__, "codes", first.codes | {"other"})
    assert len(Page(render(store, found)).all("p", **{"class": "warning"})) == 3


def test_the_command_on_the_page_asks_for_the_same_cells(store: Store, page: Page, tmp_path: Path) -> None:
    from psconrl.experiments.spec import read_experiment

    asked = set()
    for command in page.texts["pre"]:
        program, verb, file, *_ = command.split()
        assert (program, verb) == ("psconrl", "run")
        asked |= {cell.id for cell in read_experiment(store.path / file).cells}
    assert asked == {record.cell for record in store.records()}
