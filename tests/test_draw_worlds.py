"""The pictures of the worlds: the script draws them, and each has a page that shows it."""

from pathlib import Path

from docs import draw_worlds

DOCS = Path(__file__).parents[1] / "docs"


def test_every_world_has_a_page_and_a_picture(tmp_path: Path) -> None:
    draw_worlds.main(tmp_path)
    for name in draw_worlds.PICTURES:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (DOCS / "figures" / f"{name}.png").exists()
        assert f"../figures/{name}.png" in (DOCS / "environments" / f"{name}.md").read_text(encoding="utf-8")
