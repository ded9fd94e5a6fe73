"""Check a release: `make release-check` builds sdist and wheel, and uses the wheel as a stranger would.

The wheel is built from the sdist, installed in an empty environment outside the repository, and README's blocks run
there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command without the repository on the path, or stop."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=True)


def main() -> None:
    """Build, install, run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", ROOT, "--outdir", folder / "dist", cwd=folder)
        (sdist,), (wheel,) = folder.glob("dist/*.tar.gz"), folder.glob("dist/*.whl")
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
        run(python, ROOT / "docs" / "blocks.py", ROOT / "README.md", cwd=folder)
        print(f"{sdist.name} and {wheel.name}: README runs from the installed wheel")


if __name__ == "__main__":
    main()
