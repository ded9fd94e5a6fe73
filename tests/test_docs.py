"""The documentation: it builds without a warning, its code runs and prints what it says, what it names exists."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from docs import blocks

ROOT = Path(__file__).parents[1]
PAGES = blocks.pages()
NAMED = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]
RUN = [page for page in PAGES if re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), re.MULTILINE)]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "docs", tmp_path],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.stderr == ""
    assert done.returncode == 0
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "quickstart" in html
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r'<(script|link|img)[^>]+(src|href)="https?://', page.read_text(encoding="utf-8")), page
    assert broken_links(tmp_path) == []


def broken_links(folder: Path) -> list[str]:
    """Links from page to page, and to places in them, that lead nowhere."""
    pages = {page.resolve(): page.read_text(encoding="utf-8") for page in folder.rglob("*.html")}
    places = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        if page.name in ("genindex.html", "search.html") or "_modules" in page.parts:
            continue
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            path, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link) or "_modules/" in link:  # sources are listed, not written by us
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (place and target in places and place not in places[target]):
                broken.append(f"{page.name}: {link}")
    return broken


def test_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_code_of_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    differences, _ = blocks.run_page(page, tmp_path)
    hint = f"python docs/blocks.py --write {name_of(page)} puts in what is printed now"
    for difference in differences:
        assert difference.printed == difference.said, f"line {difference.line}; {hint}"
    assert not differences, hint


def test_words_are_compared_without_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = '```python\nprint("took", 3.25, "s")\n```\n\n<!-- numbers vary -->\n```text\ntook 1,000 s\n```\n'
    page.write_text(text)
    assert blocks.run_page(page, tmp_path)[0] == []
    page.write_text(text.replace("<!-- numbers vary -->\n", ""))
    differences, corrected = blocks.run_page(page, tmp_path)
    assert [(d.said, d.printed) for d in differences] == [("took 1,000 s", "took 3.25 s")]
    assert corrected == text.replace("<!-- numbers vary -->\n", "").replace("1,000", "3.25")


def test_every_block_is_found() -> None:
    text = "```{figure} x.png\n:alt: a picture\n```\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    found = list(blocks.blocks(text.splitlines()))
    assert [block.kind for block in found] == ["{figure} x.png", "python", "text"]
    assert [block.follows for block in found] == [False, True, True]
    for page in RUN:
        kinds = [block.kind for block in blocks.blocks(page.read_text(encoding="utf-8").splitlines())]
        assert kinds.count("python") == len(re.findall(r"^```python$", page.read_text(encoding="utf-8"), re.MULTILINE))


def codes(path: Path) -> list[str]:
    """What a page has in backticks within its text."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)


def resolves(dotted: str) -> bool:
    """Whether psconrl.a.b.c is a module, or an attribute of one."""
    parts = dotted.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", NAMED, ids=name_of)
def test_what_is_named_exists(page: Path) -> None:
    for code in codes(page):
        dotted = re.fullmatch(r"((?:psconrl|reproduction)(\.\w+)+)(\(.*\))?", code)
        if dotted and dotted[2] not in (".json", ".toml"):
            assert resolves(dotted[1]), f"{code} is not there"
        test = re.fullmatch(r"((?:tests|reproduction)/\S+\.py)::(\w+)", code)
        if test:
            assert test[2] in functions(ROOT / test[1]), f"{code} is not there"
        elif (
            re.fullmatch(r"(src/psconrl|reproduction|tests|docs|examples|benchmarks)/[\w./-]+", code)
            and "_build" not in code
        ):
            assert (ROOT / code).exists(), f"{code} is not there"


def test_every_agent_and_environment_is_in_the_reference() -> None:
    from psconrl import agents, environments

    reference = {name: (ROOT / "docs" / "reference" / f"{name}.md").read_text() for name in ("agents", "environments")}
    for agent in agents.registry().values():
        if agent.__module__.startswith("psconrl."):
            assert f"psconrl.agents.{agent.__name__}\n" in reference["agents"]
    for name, environment in environments.registry().items():
        if environment.build.__module__.startswith("psconrl."):
            assert f"`{name}`" in reference["environments"]


@pytest.mark.parametrize(
    "module", ["psconrl", "psconrl.planning", "psconrl.agents", "psconrl.environments", "psconrl.experiments"]
)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    reference = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    entries = {entry.rsplit(".", 1)[1] for entry in re.findall(r"auto\w+:: (\S+)", reference)}
    public = importlib.import_module(module).__all__
    modules = {
        "agents",
        "analysis",
        "environments",
        "errors",
        "experiments",
        "learning",
        "planning",
        "report",
        "schedules",
        "structure",
        "render",
    }
    assert set(public) - modules <= entries


WRONG = {
    r"PS-ConRL|PSCONRL|Psconrl|PSConrl": "PSConRL",
    r"\bCUCRL\b|C-UCRL2|CUCRL2": "C-UCRL",
    r"\bUCRLCMDP\b|UCRL CMDP(?!-)": "UCRL-CMDP",
    r"\bCMDPPSRL\b|CMDP PSRL": "CMDP-PSRL",
    r"c_\{0\}|J_\{?\*|J\^\{\*\}|\\tau\^|N_\{k\}|K_\{T\}": "c_0, J^*, \\tau_i, K_T",
    r"Mars rover|MarsRover|mars-rover": "Marsrover",
    r"violations regret|cost threshold": "violation, threshold",
}


@pytest.mark.parametrize("page", NAMED, ids=name_of)
def test_notation_and_names_are_spelled_in_one_way(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    for wrong, right in WRONG.items():
        found = re.search(wrong, prose)
        assert not found, f"{found[0] if found else ''} should read {right}"
