"""`python -m psconrl`, and `psconrl`, are the command line."""

from typing import NoReturn

from psconrl._core.interrupts import INTERRUPTED, end_at_once, end_on_interrupts, interrupted, let_end


def main() -> NoReturn:
    """Run the command line; interrupts are heard from the start, before anything large is imported."""
    try:
        end_on_interrupts()
        try:
            from psconrl.cli import main as run

            run()
        except SystemExit as end:
            if end.code == INTERRUPTED or (end.code and interrupted()):
                end_at_once()
            let_end()
            raise
    except KeyboardInterrupt:
        end_at_once("psconrl: interrupted")


if __name__ == "__main__":
    main()
