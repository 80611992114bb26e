"""How a command ends: its exit code, and one line for an error."""

import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import typer


def finish(work: Callable[[], int | Coroutine[Any, Any, int]], *, verbose: bool = False) -> None:
    """Does the work of a command and exits with its code; an error is one line."""
    from terret_loader import HarnessConfigError

    from ._errors import FAILED, INTERRUPTED, REFUSED, CommandError

    try:
        result = work()
        code = result if isinstance(result, int) else _run(result)
    except CommandError as error:
        code = error.code
        complain(f"terret: {error}", error, verbose)
    except HarnessConfigError as error:
        code = REFUSED
        typer.echo(str(error), err=True)
        for fault in error.faults if verbose else ():
            if fault.details:
                typer.echo(fault.details, err=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read the output has gone, and knows
        code = FAILED
    except Exception as error:
        code = FAILED
        complain(f"terret: {_named(error)}", error, verbose)
    _flush()
    raise typer.Exit(code)


def _run(work: Coroutine[Any, Any, int]) -> int:
    import anyio

    async def awaited() -> int:
        return await work

    return anyio.run(awaited)


def complain(text: str, error: BaseException, verbose: bool) -> None:
    """Prints a line on standard error, and the traceback behind it on demand."""
    typer.echo(text, err=True)
    if verbose:
        typer.echo("".join(traceback.format_exception(error)), err=True)


def _named(error: BaseException) -> str:
    """Returns an error with its type; of a group all that is in it."""
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: {'; '.join(map(_named, error.exceptions))}"
    return f"{type(error).__name__}: {error}"


def _flush() -> None:
    """Flushes standard output; where nobody reads it, keeps the interpreter from complaining."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.stdout = None  # as Python does where there is none
