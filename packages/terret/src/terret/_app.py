"""The commands: names and flags. What they do is imported when one of them runs."""

import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

app: Final = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Terret, an agent harness in which everything is a plugin.",
)
config_app: Final = typer.Typer(no_args_is_help=True, help="Check the configuration.")
plugin_app: Final = typer.Typer(no_args_is_help=True, help="See the installed plugins.")
sessions_app: Final = typer.Typer(no_args_is_help=True, help="See the stored sessions.")
app.add_typer(config_app, name="config")
app.add_typer(plugin_app, name="plugin")
app.add_typer(sessions_app, name="sessions")

Config = Annotated[Path | None, typer.Option("--config", "-c", help="The configuration file.")]
Root = Annotated[Path | None, typer.Option(help="The folder with harness.yml.")]
EnvFile = Annotated[Path | None, typer.Option(help="Read this in place of .env.")]
Sets = Annotated[list[str], typer.Option("--set", help="PATH=VALUE, on top of the file.")]
Safe = Annotated[bool, typer.Option(help="Start without the entries that have faults.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No lines about what happens.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of errors.")]
AgentName = Annotated[str | None, typer.Option("--agent", help="Which agent.")]
SessionId = Annotated[str | None, typer.Option("--session", help="Go on with this session.")]


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"terret {installed('terret')}")
        raise typer.Exit


@app.command()
def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT] MESSAGE...", help="`-` reads stdin.")
    ] = None,
    text: Annotated[str | None, typer.Option("--input", help="The message.")] = None,
    agent: AgentName = None,
    session: SessionId = None,
    rows: Annotated[bool, typer.Option("--json", help="Print the log, one event a line.")] = False,
    config: Config = None,
    root: Root = None,
    env_file: EnvFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    safe: Safe = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Send one message and print the answer."""
    from ._turn import Request, run_turn

    boot = _boot(config, root, env_file, sets, safe, quiet, verbose)
    asked = Request(words=words or (), text=text, agent=agent, session=session, rows=rows)
    _finish(lambda: run_turn(boot, asked), verbose=verbose)


@app.command()
def chat(
    name: Annotated[str | None, typer.Argument(metavar="[AGENT]")] = None,
    agent: AgentName = None,
    session: SessionId = None,
    config: Config = None,
    root: Root = None,
    env_file: EnvFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    safe: Safe = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Converse, line by line."""
    from ._chat import run_chat

    boot = _boot(config, root, env_file, sets, safe, quiet, verbose)
    _finish(lambda: run_chat(boot, agent or name, session), verbose=verbose)


@config_app.command("check")
def config_check(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    config: Config = None,
    root: Root = None,
    env_file: EnvFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    safe: Safe = False,
    verbose: Verbose = False,
) -> None:
    """Print every fault of harness.yml; nothing is started."""
    from ._listing import check_config

    boot = _boot(file or config, root, env_file, sets, safe, False, verbose)
    _finish(lambda: check_config(boot), verbose=verbose)


@plugin_app.command("list")
def plugin_list() -> None:
    """Print the installed plugins with what they provide and need."""
    from ._listing import list_plugins

    _finish(list_plugins)


@sessions_app.command("list")
def sessions_list(
    config: Config = None,
    root: Root = None,
    env_file: EnvFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    safe: Safe = False,
    verbose: Verbose = False,
) -> None:
    """Print the stored sessions, newest first."""
    from ._stored import list_sessions

    boot = _boot(config, root, env_file, sets, safe, False, verbose)
    _finish(lambda: list_sessions(boot), verbose=verbose)


@sessions_app.command("show")
def sessions_show(
    session: Annotated[str, typer.Argument(metavar="ID")],
    events: Annotated[bool, typer.Option("--events", help="The log, one event a line.")] = False,
    config: Config = None,
    root: Root = None,
    env_file: EnvFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    safe: Safe = False,
    verbose: Verbose = False,
) -> None:
    """Print one stored session."""
    from ._stored import show_session

    boot = _boot(config, root, env_file, sets, safe, False, verbose)
    _finish(lambda: show_session(boot, session, events=events), verbose=verbose)


def run_app(words: Sequence[str]) -> None:
    """Runs a command line; always ends in `SystemExit` with the exit code."""
    known = {command.name or "run" for command in app.registered_commands} | {"run", "chat"}
    known |= {group.name or "" for group in app.registered_groups}
    first = next((word for word in words if not word.startswith("-")), None)
    if first not in known:  # help, or a command that a plugin adds
        from terret_loader import load_hooks

        load_hooks().commands(app)
    app(args=list(words), prog_name="terret")


def _boot(
    config: Path | None,
    root: Path | None,
    env_file: Path | None,
    sets: Sequence[str],
    safe: bool,
    quiet: bool,
    verbose: bool,
) -> Any:
    from ._boot import Boot

    return Boot(
        config=config,
        root=root,
        env_file=env_file,
        sets=tuple(sets),
        safe=safe,
        quiet=quiet,
        verbose=verbose,
    )


def _finish(work: Callable[[], int | Coroutine[Any, Any, int]], *, verbose: bool = False) -> None:
    """Does the work of a command and exits with its code; an error is one line."""
    import anyio

    from terret_loader import HarnessConfigError

    from ._errors import FAILED, INTERRUPTED, REFUSED, CommandError

    try:
        result = work()
        code = result if isinstance(result, int) else anyio.run(_awaited, result)
    except CommandError as error:
        code = error.code
        _complain(f"terret: {error}", error, verbose)
    except HarnessConfigError as error:
        code = REFUSED
        _complain(str(error), error, verbose)
        for fault in error.faults if verbose else ():
            if fault.error is not None:
                typer.echo("".join(traceback.format_exception(fault.error)), err=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        code = FAILED
        _complain(f"terret: {type(error).__name__}: {error}", error, verbose)
    _flush()
    raise typer.Exit(code)


async def _awaited(work: Coroutine[Any, Any, int]) -> int:
    return await work


def _complain(text: str, error: BaseException, verbose: bool) -> None:
    typer.echo(text, err=True)
    if verbose:
        typer.echo("".join(traceback.format_exception(error)), err=True)


def _flush() -> None:
    """Flushes standard output; where nobody reads it, keeps the interpreter from complaining."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # as Python does without a terminal
