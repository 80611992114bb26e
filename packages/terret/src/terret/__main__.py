"""The program `terret`; `python -m terret` is the same."""

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    gc.disable()  # until the harness has started: what imports make is not garbage
    # Conversations leave no cycles behind, and with a thousand of them a search for some is dear.
    gc.set_threshold(10_000)
    try:
        from ._app import run_app

        run_app(words)
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
