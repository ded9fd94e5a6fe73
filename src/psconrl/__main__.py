"""`python -m psconrl`, and `psconrl`, are the command line."""

from typing import NoReturn

from psconrl._interrupts import INTERRUPTED, end_on_interrupts


def main() -> NoReturn:
    """Run the command line; interrupts are heard from the start, before anything large is imported."""
    end_on_interrupts()
    try:
        from psconrl.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    run()


if __name__ == "__main__":
    main()
