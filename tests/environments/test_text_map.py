from pathlib import Path

import numpy as np
import pytest

from psconrl._core import graph
from psconrl.environments import gridworld, make, named_map, random_map, read_map
from psconrl.errors import InvalidArgumentError, MapError
from tests.environments.reference import optimum


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the map is empty; write one letter per cell: W wall, S start"),
        (" \n\n", "the map is empty"),
        ("S . G\n. Q .", "line 2, column 3: unknown letter 'Q'; use W wall, S start, G goal, P risky"),
        ("S.G\n.s.", "line 2, column 2: unknown letter 's'"),
        ("S..\n...", "lines 1 to 2: the map has no goal; write G into at least one cell"),
        ("\n..G\n...", "lines 2 to 3: the map has no start; write S"),
        ("S X G\n. X .", "line 2, column 3: this is a second box; a map may hold one: write . instead of X"),
        ("S . G\n. .\n", "line 2, column 4: this line has 2 cells, the first has 3; .* write . for a free"),
        ("S.G\n....\n", "line 2, column 4: this line has 4 cells, the first has 3"),
        ("S.G\n\n...\n", "line 2, column 1: this line has 0 cells, the first has 3"),
    ],
)
def test_bad_maps(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(MapError, match=f"^{message}"):
        read_map(text)
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MapError, match=f"bad.txt: {message}"):
        read_map(path)


def test_bad_sources(tmp_path: Path) -> None:
    with pytest.raises(MapError, match=r"none.txt: there is no such file"):
        read_map(tmp_path / "none.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(MapError, match="not a text file in UTF-8"):
        read_map(tmp_path / "binary.txt")
    with pytest.raises(MapError, match="a map must be text, a list of lines or a path; not int"):
        read_map(7)  # type: ignore[arg-type]


def test_reading() -> None:
    found = read_map("\n  W S .\n  W G X\n")
    assert found.rows == ("WS.", "WGX")
    assert found.where("G").tolist() == [[1, 1]]
    assert named_map("box").rows[1] == "W.SWWW"


@pytest.mark.parametrize("seed", range(5))
def test_random_maps(seed: int) -> None:
    text = random_map(9, 12, risky=0.4, seed=seed)
    assert text == random_map(9, 12, risky=0.4, seed=seed)
    assert text != random_map(9, 12, risky=0.4, seed=seed + 5)
    cmdp = gridworld(text, tau=0.0)
    assert cmdp.layout is not None
    letters = np.array([list(row) for row in cmdp.layout.rows])
    assert letters.shape == (11, 14)
    assert (letters != "W").sum() == cmdp.S
    assert (letters == "P").sum() == round(0.4 * cmdp.S)
    assert graph.is_communicating(cmdp.matrix)
    safe, _ = optimum(cmdp)
    fast, _ = optimum(cmdp.replace(thresholds=[1.0]))
    assert fast < safe < 1  # a safe way exists, and it is a detour


def test_random_maps_at_the_edge() -> None:
    assert random_map(1, 3, risky=1.0).splitlines()[1] == "W G . S W"
    assert "P" not in random_map(5, 5, risky=0.0)
    with pytest.raises(InvalidArgumentError, match="columns is 1; it must be at least 2"):
        random_map(1, 1)
    with pytest.raises(InvalidArgumentError, match="risky is 2; it must be a number from 0 to 1"):
        random_map(3, 3, risky=2)
    with pytest.raises(InvalidArgumentError, match="rows is 0; it must be at least 1"):
        random_map(0, 3)
    with pytest.raises(InvalidArgumentError, match="seed is -1; it must be at least 0"):
        make("grid", seed=-1)
