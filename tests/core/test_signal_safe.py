"""Interrupts while kernels are loaded and their results are made: in a process of its own, as it may die."""

import subprocess
import sys
from pathlib import Path

CALLS = """
import os, signal, threading, time
from typing import NamedTuple
import numpy as np
from psconrl._core.njit import njit
from psconrl._core.signal_safe import SignalSafeDispatcher

class Pair(NamedTuple):
    x: np.ndarray
    n: int

@njit
def pairs(x: np.ndarray) -> tuple[Pair, Pair, Pair]:
    return Pair(x, 1), Pair(x, 2), Pair(x, 3)

@njit
def number(x: np.ndarray) -> float:
    return x[0]

assert type(pairs.compiled) is SignalSafeDispatcher and type(number.compiled) is not SignalSafeDispatcher
x = np.zeros(2)
heard = done = 0
calling = False

def handler(number, frame):
    global heard
    heard += 1
    if calling:
        raise KeyboardInterrupt

def interrupt():
    while True:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.0005)

signal.signal(signal.SIGINT, handler)
assert pairs(x)[2].n == 3 and number(x) == 0 and signal.getsignal(signal.SIGINT) is handler
threading.Thread(target=interrupt, daemon=True).start()
while done < 20_000 or heard < 200:
    try:
        calling = True
        for _ in range(1000):
            assert pairs(x)[2].n == 3
            done += 1
        calling = False
    except KeyboardInterrupt:
        calling = False
print("all well", flush=True)
os._exit(0)
"""


LOADS = """
import os, signal, threading, time
import numpy as np
from psconrl._core.njit import njit

@njit
def total(x: np.ndarray) -> float:
    return x.sum()

x = np.ones(2)
assert total(x) == 2.0  # compiled, and on disk from now on
loaded = heard = 0
loading = False

def handler(number, frame):
    global heard
    if loading:
        heard += 1
        raise KeyboardInterrupt

def interrupt():
    while True:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.002)

signal.signal(signal.SIGINT, handler)
threading.Thread(target=interrupt, daemon=True).start()
while loaded < 20 or heard < 200:
    try:
        kernel = njit(total.py_func)
        loading = True
        assert kernel(x) == 2.0
        loaded += 1
        loading = False
    except KeyboardInterrupt:
        loading = False
print("all well", flush=True)
os._exit(0)
"""


def test_interrupts_wait_for_kernels_that_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADS)
    done = subprocess.run([sys.executable, tmp_path / "loads.py"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr[-2000:]


def test_interrupts_wait_for_results_of_compiled_code(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    done = subprocess.run([sys.executable, tmp_path / "calls.py"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr[-2000:]
