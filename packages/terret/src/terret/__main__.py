"""The program `terret`; `python -m terret` is the same."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    from ._app import run_app

    run_app(words)


if __name__ == "__main__":
    main()
