"""The flags that every command about a harness takes."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from typer import Argument, Option

from ._ending import finish

Work: TypeAlias = int | Coroutine[Any, Any, int]

Agent = Annotated[str | None, Option("--agent", metavar="NAME", help="Which agent.")]
Session = Annotated[str | None, Option("--session", metavar="ID", help="Go on with this session.")]
SessionId = Annotated[
    str, Argument(metavar="ID", help="With --agent its own id, else that of the whole store.")
]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Tracebacks of errors.")]
Tenant = Annotated[
    str | None, Option("--tenant", metavar="NAME", help="Whose sessions; else those of `default`.")
]
OnAsk = Annotated[
    Literal["prompt", "deny", "allow"] | None,
    Option("--on-ask", help="Who decides about calls; else a terminal, if there is one."),
]
File = Annotated[Path | None, Argument(metavar="FILE", help="Default: the harness.yml above.")]


@dataclass(frozen=True, kw_only=True)
class Address:
    """A conversation, as far as the command line names it."""

    agent: str | None = None
    session: str | None = None
    tenant: str | None = None


def _flags(
    *,
    config: Annotated[
        Path | None, Option("--config", "-c", metavar="FILE", help="The configuration file.")
    ] = None,
    root: Annotated[Path | None, Option(metavar="DIR", help="The folder with harness.yml.")] = None,
    env_file: Annotated[
        Path | None, Option(metavar="FILE", help="Read this in place of .env.")
    ] = None,
    sets: Annotated[
        list[str], Option("--set", metavar="PATH=VALUE", help="A value on top of the file.")
    ] = [],  # noqa: B006 - typer copies it
    safe: Annotated[bool, Option("--safe", help="Leave out the entries that have faults.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show errors only.")] = False,
    verbose: Verbose = False,
) -> Mapping[str, Any]:
    return locals()


def harness_command(command: Callable[..., Work]) -> Callable[..., None]:
    """Gives a command the common flags, as a `Boot` that is its first argument, and ends it."""
    own = inspect.signature(command)
    flags = inspect.signature(_flags).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        from ._boot import Boot

        common = {name: given.pop(name) for name in flags}
        boot = Boot(**common | {"sets": tuple(common["sets"])})
        finish(lambda: command(boot, **given), verbose=boot.verbose)

    parameters = [*list(own.parameters.values())[1:], *flags.values()]
    keywords = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in parameters]
    # typer reads both
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in keywords}
    return run
