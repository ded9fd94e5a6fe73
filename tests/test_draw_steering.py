"""The picture of steering: the script draws it, and the page shows it."""

from pathlib import Path

import pytest

from docs import draw_steering

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_has_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_steering, "STEPS", 300)
    draw_steering.main(tmp_path)
    assert (tmp_path / "steering.png").read_bytes().startswith(b"\x89PNG")
    assert (DOCS / "figures" / "steering.png").exists()
    assert "figures/steering.png" in (DOCS / "steering.md").read_text(encoding="utf-8")
