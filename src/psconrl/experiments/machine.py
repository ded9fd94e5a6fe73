"""What computed something: the machine, Python, the libraries and the code, for the head of a report."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from psconrl.experiments.identity import LIBRARIES, code_identity


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, str]:
    """The machine and the software, in words."""
    libraries = ", ".join(f"{library} {version(library)}" for library in LIBRARIES)
    return {
        "Machine": f"{processor()}, {cores()} cores, {platform.system()} {platform.machine()}",
        "Software": f"psconrl {version('psconrl')}, Python {platform.python_version()}, {libraries}",
        "Code": code_identity(),
    }


def processor() -> str:
    """The model of the processor, as far as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown processor"
