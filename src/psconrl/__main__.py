"""`python -m psconrl`, and `psconrl`, are the command line."""

from typing import NoReturn

from psconrl._core.interrupts import end_on_interrupts


def main() -> NoReturn:
    """Run the command line; interrupts are heard from the start, before anything large is imported."""
    end_on_interrupts()
    from psconrl.cli import main as run

    run()


if __name__ == "__main__":
    main()
