"""`python -m tests.fuzz COUNT [TARGET ...] [--seed N]`: feed so many inputs in all and say what came of it.

With the package atheris installed, `python -m tests.fuzz --atheris TARGET [libFuzzer's options]` lets libFuzzer choose
the inputs, guided by the coverage of every module of psconrl.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time


def guided(name: str, options: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["psconrl"]):
        from tests.fuzz.targets import TARGETS, fed, folder

    corpus = folder() / "corpus"
    corpus.mkdir()
    for k, content in enumerate(TARGETS[name].examples()):
        (corpus / str(k)).write_bytes(content)
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: fed(name, bytes(content)) and None)
    atheris.Fuzz()


def main() -> None:
    if sys.argv[1:2] == ["--atheris"]:
        guided(sys.argv[2], sys.argv[3:])
        return
    from tests.fuzz.engine import fuzz
    from tests.fuzz.targets import TARGETS, counts

    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    given = counts(asked.count) if asked.targets == list(TARGETS) else dict.fromkeys(asked.targets, asked.count)
    for name, count in given.items():
        start = time.monotonic()
        _, lines = list(fuzz(name, count, asked.seed))[-1]
        seconds = time.monotonic() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name:14} {count:9,} inputs {lines:5} lines {seconds:7.1f} s {memory:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
