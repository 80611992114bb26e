"""The program `terret`; `python -m terret` is the same."""

import gc
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed by whoever started the program
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the program runs
    gc.disable()  # until the harness has started: what imports make is not garbage
    # Conversations leave no cycles behind, and with a thousand of them a search for some is dear.
    gc.set_threshold(10_000)
    try:
        from ._app import run_app

        run_app(words)
    except SystemExit as ended:
        if arguments is None:
            _leave(ended.code)
        raise
    finally:
        gc.enable()


def _leave(code: str | int | None) -> None:
    """Ends the process if threads are left; they had their time when the harness was torn down."""
    main = threading.main_thread()
    if any(each is not main and not each.daemon for each in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, AttributeError):  # nobody reads it, or it was never open
                stream.flush()
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
