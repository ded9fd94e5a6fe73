"""What a newcomer changes is in one or two places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changes import CHANGES, checked, copied, made


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which all changes are made."""
    root = copied(tmp_path_factory.mktemp("copy"))
    for change in CHANGES:
        assert len(made(change, root)) <= 2, change.name
    return root


def test_all_changes_work_together(changed: Path) -> None:
    done = checked(list(CHANGES), changed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all work\n")
