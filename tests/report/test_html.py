import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from psconrl.analysis.claims import Claim, Scale
from psconrl.experiments.presets import find
from psconrl.reproduce import write_results

from psconrl import evaluate, make, solve
from psconrl.analysis.groups import group
from psconrl.cli import _experiment
from psconrl.experiments.spec import Cell, Experiment, read_toml
from psconrl.experiments.store import Store
from psconrl.report import chart_data, explorer_data
from psconrl.report.html import embedded, render
from psconrl.report.panels import Level, Line, Panel
from psconrl.report.rerun import recipes
from tests.report import stores
from tests.report.stores import run

NASTY = "</script><script>alert(1)</script><!--&\u2028"


class Page(HTMLParser):
    """What the tests ask of a page: its elements, its ids and its scripts."""

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
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.texts["script"][0]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stores.small(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def text(store: Store) -> str:
    return stores.page(store)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_refers_to_nothing_outside(text: str, page: Page) -> None:
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    assert not page.all("link")
    allowed = {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= allowed
    assert "@import" not in text
    assert "url(" not in page.texts["style"][0]


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
    assert len(ids) == len(set(ids))
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
    claim = Claim("Theory", "key", NASTY, NASTY, NASTY, NASTY, "held", NASTY, Scale(NASTY))
    panel = Panel(NASTY, NASTY, [Line(NASTY, *np.ones((4, 3)))], [Level(NASTY, 1.0, "optimal")])
    found = render(store, group(store.records()), {NASTY: [[panel]]}, [claim])
    page = Page(found)
    assert len(page.all("script")) == 2
    assert "<b>model" not in found
    assert "<!--" not in found
    assert "alert(1)</script>" not in found
    assert page.data["worlds"][0]["states"][0] == NASTY


def test_the_page_needs_nothing_but_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model file that changed or went is drawn as it was run; nothing is built or solved again."""
    path = tmp_path / "model.npz"
    make("toy").save(path)
    store = run(tmp_path / "store", Experiment.grid("own", [str(path)], ["PSConRL"], horizon=60, seeds=1))
    groups = group(store.records())
    before = explorer_data.document(explorer_data.worlds(store, groups)[0])
    assert before["states"] == ["left", "right"]
    assert before["optimal"]["averages"] == pytest.approx([0.4725, 0.5275])
    path.unlink()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the report builds or solves a model")

    for name in ("environments.make", "planning.solve", "planning.evaluate", "cmdp.CMDP.__init__"):
        monkeypatch.setattr(f"psconrl.{name}", never)
    assert explorer_data.document(explorer_data.worlds(store, groups)[0]) == before
    render(store, groups, {}, [])


def test_runs_that_say_nothing_about_their_model_are_shown_without_it(tmp_path: Path) -> None:
    """Those of a store without the first seed, or made before models were described."""
    store = run(tmp_path / "store", Experiment.grid("own", ["toy"], ["PSConRL"], horizon=60, seeds=2))
    (part,) = (part for part in store.parts() if part.seed == 0)
    part.path.unlink()
    groups = group(store.records())
    content = explorer_data.document(explorer_data.worlds(store, groups)[0])
    assert content["optimal"] is None
    assert content["states"] == ["0", "1"]
    assert "not at hand" in render(store, groups, {}, [])


def test_policies_on_the_page_are_those_of_the_store(store: Store, page: Page) -> None:
    records = {r.cell: r for r in store.records() if r.seed == 0}
    worlds = explorer_data.worlds(store, group(store.records()))
    assert [world.record.env for world in worlds] == ["marsrover-4x4", "box", "toy", "toy", "queue", "dirichlet"]
    assert [world.shared for world in worlds] == [True, True, True, True, True, False]
    for world, content in zip(worlds, page.data["worlds"], strict=True):
        for agent, shown in zip(world.agents, content["agents"], strict=True):
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
    cmdp, content = make("marsrover-4x4"), page.data["worlds"][0]
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
    monkeypatch.setattr(explorer_data, "ENTRIES", 5 * record.states)
    kept = explorer_data.kept(record)
    assert len(kept) == 5
    assert (kept[0], kept[-1]) == (record.snapshots[0], record.snapshots[-1])


def test_models_too_large_are_described_not_drawn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer_data, "DESCRIBED", 20)
    page = Page(stores.page(store))
    box = page.data["worlds"][1]
    assert box["optimal"] is None
    assert [agent["snapshots"] for agent in box["agents"]] == [[], []]
    assert len(box["states"]) == 20
    assert len(page.all("input", type="range")) == 8


def test_lines_are_thinned_and_rounded() -> None:
    x = np.arange(1.0, 1_001)
    assert len(chart_data.thinned(x)) == chart_data.POINTS
    for logarithmic in (False, True):
        kept = chart_data.thinned(x, logarithmic)
        assert (kept[0], kept[-1]) == (0, 999)
        assert len(kept) <= chart_data.POINTS
    mean = 1234.56789 * x
    rows = [[Panel("title", "regret\n(signed)", [Line("PSConRL", x, mean, mean - 1, mean + 1)])], [panel_of(2)]]
    figure = chart_data.figure(rows)
    (strip,) = figure["strips"]
    assert strip["title"] == "title"
    assert [panel["title"] for panel in strip["panels"]] == ["regret (signed)", "y"]
    line = strip["panels"][0]["lines"][0]
    assert line["mean"][-1] == pytest.approx(mean[-1], rel=1e-4)
    assert len(json.dumps(line["mean"])) < 12 * chart_data.POINTS


def panel_of(lines: int, label: str = "PSConRL") -> Panel:
    return Panel("", "y", [Line(label, *np.ones((4, 3))) for _ in range(lines)])


def test_every_strip_has_a_legend_of_its_own() -> None:
    rows = [[panel_of(1), panel_of(1, "ConRL")], [panel_of(1), panel_of(1, "FHA")]]
    assert [strip["labels"] for strip in chart_data.figure(rows)["strips"]] == [["PSConRL"], ["ConRL", "FHA"]]


def test_a_line_without_numbers_is_left_out() -> None:
    nothing = Line("PSConRL", np.ones(3), *np.full((3, 3), np.nan))
    some = Line("ConRL", np.ones(3), *np.array([[np.nan, 1, 2]] * 3))
    (panel,) = chart_data.figure([[Panel("", "y", [nothing, some])]])["strips"][0]["panels"]
    assert [line["label"] for line in panel["lines"]] == ["ConRL"]
    assert panel["lines"][0]["mean"] == [None, 1, 2]
    assert chart_data.figure([[Panel("", "y", [nothing])]])["strips"][0]["panels"][0]["lines"] == []


def test_agents_that_repeat_are_told_apart(tmp_path: Path) -> None:
    cells = [Cell("toy", "ConRL", T, settings={"scale": s}) for s, T in ((0.1, 20), (1.0, 20), (1.0, 30))]
    store = run(tmp_path, Experiment("x", tuple(cells), (1, 1, 1)))
    labels = explorer_data.distinct(list(group(store.records()).values()))
    assert sorted(labels) == ["ConRL, scale=0.1, T=20", "ConRL, scale=1.0, T=20", "ConRL, scale=1.0, T=30"]


def test_an_empty_store_has_a_page(tmp_path: Path) -> None:
    Store(tmp_path, create=True)
    write_results(tmp_path)
    assert "No runs are stored here" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_failures_and_mixtures_are_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = group(store.records())
    first = next(iter(groups.values()))
    monkeypatch.setattr(type(store), "failures", lambda self: [Path("a"), Path("b")])
    monkeypatch.setitem(first.__dict__, "codes", first.codes | {"other"})
    found = render(store, groups, {}, [])
    assert "2 runs have failed" in found
    assert "2 versions of the code" in found


@pytest.mark.parametrize(("name", "quick"), [("figure-1", True), ("bonus", False), ("bayesian", False)])
def test_presets_are_run_again_by_their_names(name: str, quick: bool) -> None:
    experiment = find(name).experiment(quick)
    assert experiment is not None
    (recipe,) = recipes(experiment.as_json())
    assert recipe.command == f"psconrl reproduce {name}" + (" --quick" if quick else "")


def test_commands_ask_for_the_same_cells(tmp_path: Path) -> None:
    irregular = Experiment(
        "irregular",
        (
            Cell("toy", "ConRL", 50, settings={"scale": 0.5}),
            Cell("toy", "ConRL", 50, settings={"scale": 0.7}),
            Cell("queue", "PSConRL", 60, settings={"prior": 0.01, "infeasible": "explore"}, costs="known"),
            Cell("queue", "PSConRL", 70, settings={"prior": 0.01}, checkpoints=9, env_options={"service_limit": 0.5}),
        ),
        (1, 1, 2, 3),
    )
    regular = Experiment.grid(
        "run", ["marsrover-4x4", "toy"], ["PSConRL", "C-UCRL"], horizon=50, seeds=3, settings={"psconrl": {"prior": 1}}
    )
    assert len(recipes(regular.as_json())) == 1
    for experiment in (regular, irregular):
        asked: dict[str, int] = {}
        for recipe in recipes(experiment.as_json()):
            again = _again(recipe.command, recipe.file, tmp_path)
            asked |= {cell.id: n for cell, n in zip(again.cells, again.seeds, strict=True)}
        assert asked == {cell.id: n for cell, n in zip(experiment.cells, experiment.seeds, strict=True)}


def test_what_no_command_can_say_is_said_in_python() -> None:
    odd = Experiment("odd", (Cell("toy", "PSConRL", 50),), (1,))
    (recipe,) = recipes(odd.as_json(), "experiment-odd.json")
    assert recipe.command == f"python {recipe.name}"
    compile(recipe.file, recipe.name, "exec")
    assert "'experiment-odd.json'" in recipe.file
    gone = odd.as_json()
    gone["cells"][0] |= {"agent": "Retired", "id": "gone"}
    assert recipes(gone) == recipes(odd.as_json())


def _again(command: str, file: str, folder: Path) -> Experiment:
    """The experiment that a command asks for."""
    if file:
        assert command == "psconrl run experiment.toml"
        (folder / "experiment.toml").write_text(file)
        return read_toml(folder / "experiment.toml")
    words = shlex.split(command)
    assert words[:2] == ["psconrl", "run"]
    given: dict[str, list[str]] = {}
    for option, value in zip(words[2::2], words[3::2], strict=True):
        given.setdefault(option, []).append(value)
    costs = given.get("--costs", ["estimated"])[0]
    horizon, seeds = int(given["--horizon"][0]), int(given["--seeds"][0])
    return _experiment(given["--env"], given["--agent"], horizon, seeds, costs, given.get("--set", []))


def test_of_many_agents_one_of_each_kind_leads(tmp_path: Path) -> None:
    settings = [
        Experiment.grid(
            f"prior {k}", ["toy"], ["PSConRL"], horizon=20, seeds=1, settings={"PSConRL": {"prior": k / 10}}
        )
        for k in range(1, 6)
    ]
    others = Experiment.grid("others", ["toy"], ["TSDE", "CMDP-PSRL"], horizon=20, seeds=1)
    found = stores.page(stores.run(tmp_path, others, *settings))
    assert "Three agents acted for 20 steps" in found
    assert found.count("The same agents with other settings") == 1
    few = stores.page(stores.run(tmp_path / "few", *settings))
    assert "Five agents acted" in few
    assert "with other settings" not in few
