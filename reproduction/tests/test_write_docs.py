"""The measured tables of README and documentation are those of the numbers that are kept."""

import json
import re
from pathlib import Path

import pytest

from reproduction import write_docs
from reproduction.presets import presets
from reproduction.write_docs import TABLES, as_json

ALL_PAGES = sorted(path for path in (write_docs.ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
KEPT = sorted(path for folder in write_docs.FOLDERS for path in folder.glob("*.json"))
BENCHMARKS = [path for path in KEPT if path.stem not in TABLES]
PLACES = set(write_docs.texts())


@pytest.mark.parametrize("page", write_docs.pages(), ids=lambda path: path.name)
def test_pages_show_the_numbers_that_are_kept(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == write_docs.written(text, write_docs.texts()), (
        "python -m reproduction.write_docs writes the pages again"
    )


def test_every_place_has_numbers_and_every_table_a_place() -> None:
    asked = [
        m["name"] for page in write_docs.pages() for m in write_docs.PLACE.finditer(page.read_text(encoding="utf-8"))
    ]
    assert set(asked) == PLACES
    assert {place for places in TABLES.values() for place in places} <= PLACES
    assert {path.stem for path in KEPT} >= set(TABLES)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_numbers_carry_the_code_that_made_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    assert as_json(document) == text
    code = document["made"]["Code"] if "made" in document else document["code"]
    assert code
    assert code != "-"


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_a_benchmark_measured_names_its_command_and_machine(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))["made"]
    (script,) = re.findall(r"^python (benchmarks/\w+\.py|-m tests[.\w]*)", made["Command"])
    module = script.removeprefix("-m ").replace(".", "/")
    assert any((write_docs.ROOT / name).exists() for name in (script, f"{module}.py", f"{module}/__main__.py"))
    assert made["Date"]
    assert made["Machine"]


MEASURED = re.compile(r"\d ± [\d.]|^\|.*\| [\d.,]+ (?:s|ms|MiB) \|", flags=re.MULTILINE)
"""How measured numbers look: a mean with its scatter, a time or a memory in a table."""


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: str(path.relative_to(write_docs.ROOT)))
def test_measured_numbers_are_not_typed(page: Path) -> None:
    text = write_docs.PLACE.sub("", page.read_text(encoding="utf-8"))
    scripts = re.findall(r"benchmarks/(\w+\.py)", text)
    typed = MEASURED.search(re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert typed is None, typed
    for script in scripts:
        assert (write_docs.ROOT / "benchmarks" / script).exists(), script


def test_a_page_is_changed_in_its_places_alone() -> None:
    end = "<!-- end of results -->\n"
    page = f"before\n<!-- results: a -->\nold\n{end}after\n<!-- results: b -->\n{end}"
    written = write_docs.written(page, {"a": "new\n"})
    assert written == page.replace("old\n", "\nnew\n\n")
    assert write_docs.written(written, {"a": "new\n"}) == written


def test_every_figure_of_a_page_is_one_that_is_taken_from_results() -> None:
    shown = (write_docs.DOCS / "index.md").read_text(encoding="utf-8")
    for path in (write_docs.DOCS / "figures").iterdir():
        assert f"figures/{path.name}" in shown, path.name
    figures = {figure.name for preset in presets().values() for figure in preset.figures} | {"environments"}
    assert set(re.findall(r"figures/([\w-]+)\.png", shown)) == figures
