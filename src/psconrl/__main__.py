"""`python -m psconrl` is the command line."""

from psconrl.cli import main

if __name__ == "__main__":
    main()
