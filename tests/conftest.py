"""Settings for all tests."""

import sys

from hypothesis import settings

if sys.platform == "win32":
    # They harm files and processes in the ways of POSIX: by signals, forks, pipes, links and limits.
    collect_ignore_glob = ["experiments/test_forged.py", "experiments/test_harm.py", "experiments/test_runner.py"]
    collect_ignore_glob += ["io/test_reading.py", "io/test_writing.py", "fuzz/*", "core/test_signal_safe.py"]

settings.register_profile("psconrl", deadline=None, derandomize=True)
settings.load_profile("psconrl")
