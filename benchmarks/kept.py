"""Keep what a benchmark measured for the pages that show it.

docs/results/NAME.json has the command, the date, the machine and the code beside the numbers; `make tables`
puts them into the pages, and a test compares.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # scripts are run from anywhere, and `reproduction` is not installed

from psconrl.experiments.machine import describe  # noqa: E402
from reproduction.write_docs import as_json, shown  # noqa: E402

Part = dict[str, Any]
RESULTS = ROOT / "docs" / "results"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Part:
    """A table for a place in a page."""
    return {"head": list(head), "rows": [list(row) for row in rows]}


def text(sentences: str) -> Part:
    """A text for a place in a page."""
    return {"text": sentences}


def show(part: Part) -> None:
    """Print a part as the page will have it."""
    print(shown(part))


def keep(name: str, parts: Mapping[str, Part]) -> None:
    """Write docs/results/NAME.json; parts: by the name of their place."""
    words = [f"benchmarks/{Path(sys.argv[0]).name}", *(word for word in sys.argv[1:] if word != "--keep")]
    made = {"Command": " ".join(["python", *words]), "Date": time.strftime("%Y-%m-%d")} | describe()
    (RESULTS / f"{name}.json").write_text(as_json({"made": made, "parts": dict(parts)}), encoding="utf-8")
