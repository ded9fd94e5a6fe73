from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from psconrl.environments import make, render
from psconrl.errors import InvalidModelError

NAMES = ["marsrover-4x4", "marsrover-8x8", "box"]


def always(name: str, action: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    policy = np.zeros((make(name).S, 4))
    policy[:, action] = 1.0
    return policy


def test_plain_text() -> None:
    text = render.ansi(make("box"), color=False)
    assert text.splitlines()[1:3] == [" W  .  S  W  W  W", " W  .  X  .  .  W"]
    assert "\x1b" not in text
    assert "\x1b[" in render.ansi(make("box"))


def test_a_policy_as_text() -> None:
    rover = make("marsrover-4x4")
    policy = always("marsrover-4x4", 0)
    policy[rover.state_names.index("(4, 3)")] = [0.6, 1e-7, 0.4 - 1e-7, 0.0]
    text = render.ansi(rover, policy, color=False)
    assert text.count("↑") == 16  # 15 states without the goal, one of them listed again
    assert "W   ↑  ↑ S↑* ↑ W" in text
    assert text.endswith("* (4, 3)  ↑ 0.600  ← 0.400\n")


def test_long_lists_are_cut() -> None:
    rover = make("marsrover-8x8")
    text = render.ansi(rover, np.full((64, 4), 0.25), color=False)
    assert text.endswith("* and 23 more states\n")


@pytest.mark.parametrize("name", NAMES)
def test_pictures_show_letters_arrows_and_probabilities(name: str) -> None:
    cmdp = make(name)
    policy = always(name, 3)
    policy[int(np.argmax(cmdp.initial))] = [0.25, 0.0, 0.75, 0.0]
    root = ElementTree.fromstring(render.svg(cmdp, policy, title="A <rover> & co"))
    space = {"svg": "http://www.w3.org/2000/svg"}
    texts = [text.text for text in root.iterfind(".//svg:text", space)]
    assert {"A <rover> & co", "S", "G", ".25", ".75", "start", "goal", "wall"} <= set(texts)
    assert ("box" in texts) == (name == "box")
    layout = cmdp.layout
    assert layout is not None
    states = cmdp.S if layout.box is None else int((layout.box == [2, 2]).all(axis=1).sum())
    (arrows,) = render.figure(cmdp, policy).axes[0].collections
    assert len(np.asarray(arrows.get_offsets())) == states  # one arrow each, two at the start, none at G
    assert not render.figure(cmdp).axes[0].collections


@pytest.mark.parametrize("name", NAMES)
def test_png(name: str, tmp_path: Path) -> None:
    cmdp = make(name)
    render.png(cmdp, tmp_path / "policy.png", np.full((cmdp.S, 4), 0.25), title=name)
    render.png(cmdp, tmp_path / "map.png")
    for file in tmp_path.iterdir():
        assert file.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "policy.png").stat().st_size > (tmp_path / "map.png").stat().st_size > 2000


def test_the_box_can_stand_elsewhere() -> None:
    cmdp = make("box", full=True)
    text = render.ansi(cmdp, always("box", 1)[:1].repeat(cmdp.S, axis=0), box=(3, 2), color=False)
    assert text.splitlines()[2] == "W   ↓  ↓  ↓  ↓ W"
    assert text.splitlines()[3] == "W  W  X   ↓  ↓ W"
    assert "box at (3, 2)" in render.svg(cmdp, box=(3, 2))
    assert render.svg(cmdp) == render.svg(cmdp)
    with pytest.raises(InvalidModelError, match=r"the box never stands at \(0, 0\)"):
        render.svg(cmdp, box=(0, 0))
    with pytest.raises(InvalidModelError, match="this map has no box"):
        render.svg(make("marsrover-4x4"), box=(1, 1))


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    toy = make("toy")
    for draw in (render.ansi, render.svg, lambda cmdp: render.png(cmdp, tmp_path / "toy.png")):
        with pytest.raises(InvalidModelError, match="this model has no layout, so it cannot be drawn"):
            draw(toy)
    rover = make("marsrover-4x4")
    with pytest.raises(InvalidModelError, match="the policy has shape"):
        render.ansi(rover, np.ones((3, 4)))
    with pytest.raises(InvalidModelError, match="only if the actions are up, down, left, right"):
        render.svg(rover.replace(action_names=["n", "s", "w", "e"]), always("marsrover-4x4", 0))
