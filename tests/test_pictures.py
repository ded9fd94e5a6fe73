"""The pictures of README and documentation: scripts draw them, and pages show them."""

from pathlib import Path

import pytest

from docs import blocks, draw_learning, draw_steering, draw_worlds

SHOWN = "".join(page.read_text(encoding="utf-8") for page in blocks.pages())


def drawn(folder: Path, name: str) -> bool:
    """Whether a picture was drawn, is kept with the documentation, and is on a page."""
    made = (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return made and (draw_worlds.FIGURES / f"{name}.png").exists() and f"figures/{name}.png" in SHOWN


def test_environments(tmp_path: Path) -> None:
    draw_worlds.main(tmp_path)
    assert all(drawn(tmp_path, name) for name in draw_worlds.PICTURES)


def test_steering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_steering, "STEPS", 300)
    draw_steering.main(tmp_path)
    assert drawn(tmp_path, "steering")


def test_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_learning, "STEPS", 300)
    monkeypatch.setattr(draw_learning, "SEEDS", 1)
    draw_learning.main(tmp_path)
    assert drawn(tmp_path, "learning")
