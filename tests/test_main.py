"""`python -m psconrl` is the command line."""

import subprocess
import sys

import psconrl


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "psconrl", "--version"], capture_output=True, text=True, check=True)
    assert psconrl.__version__ in done.stdout
