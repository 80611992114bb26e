"""The commands: names and flags. What they do is imported when one of them runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Argument, Option

from ._ending import finish
from ._options import (
    Address,
    Agent,
    File,
    OnAsk,
    Session,
    SessionId,
    Tenant,
    Verbose,
    Work,
    harness_command,
)
from ._project_commands import add_project_commands

app: Final = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Terret, an agent harness in which everything is a plugin.",
    epilog="Plugins may add commands: `terret plugin list` shows them.",
)
config_app: Final = typer.Typer(no_args_is_help=True, help="Check and show the configuration.")
plugin_app: Final = typer.Typer(no_args_is_help=True, help="See, check and start plugins.")
sessions_app: Final = typer.Typer(no_args_is_help=True, help="See the stored sessions.")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"terret {installed('terret')}")
        raise typer.Exit


@app.command()
@harness_command
def run(
    boot: Any,
    words: Annotated[
        list[str] | None, Argument(metavar="[AGENT] MESSAGE", help="`-` reads stdin.")
    ] = None,
    text: Annotated[str | None, Option("--input", metavar="TEXT", help="The message.")] = None,
    agent: Agent = None,
    session: Session = None,
    tenant: Tenant = None,
    on_ask: OnAsk = None,
    rows: Annotated[bool, Option("--json", help="Print events, one a line (protocol v1).")] = False,
) -> Work:
    """Send one message and print the answer."""
    from ._request import Request
    from ._turn import run_turn

    address = Address(agent=agent, session=session, tenant=tenant)
    asked = Request(words=words or (), text=text, address=address, on_ask=on_ask, rows=rows)
    return run_turn(boot, asked)


@app.command()
@harness_command
def chat(
    boot: Any,
    name: Annotated[str | None, Argument(metavar="AGENT")] = None,
    agent: Agent = None,
    session: Session = None,
    tenant: Tenant = None,
    on_ask: OnAsk = None,
) -> Work:
    """Converse; changes of the configuration apply at once."""
    from ._chat import run_chat

    return run_chat(boot, Address(agent=agent or name, session=session, tenant=tenant), on_ask)


add_project_commands(app)
app.add_typer(config_app, name="config")
app.add_typer(plugin_app, name="plugin")
app.add_typer(sessions_app, name="sessions")


@config_app.command("check")
@harness_command
def config_check(boot: Any, file: File = None) -> Work:
    """Print every fault; nothing is started."""
    from ._configuration import check

    return check(boot.of(file))


@config_app.command("show")
@harness_command
def config_show(
    boot: Any,
    file: File = None,
    origin: Annotated[
        bool, Option("--origin", help="Each value with where it comes from, defaults too.")
    ] = False,
) -> Work:
    """Print the merged configuration; secrets are not shown."""
    from ._configuration import show

    return show(boot.of(file), origin=origin)


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON Schema of harness.yml, for editors."""
    from ._configuration import schema

    finish(schema)


@plugin_app.command("list")
def plugin_list() -> None:
    """Print the installed plugins with what they provide and need."""
    from ._listing import list_plugins

    finish(list_plugins)


@plugin_app.command("check")
def plugin_check(
    path: Annotated[str, Argument(metavar="PATH", help="A file, a folder, or what `use` takes.")],
    verbose: Verbose = False,
) -> None:
    """Check a plugin without running it: record, settings, imports, event names."""
    from ._plugin_check import check_plugin

    finish(lambda: check_plugin(path, verbose=verbose), verbose=verbose)


@plugin_app.command("new")
def plugin_new(
    name: Annotated[Path, Argument(metavar="NAME", help="The new folder.")],
) -> None:
    """Write the beginnings of a plugin: module, test and README."""
    from ._scaffold import new_plugin

    finish(lambda: new_plugin(name))


@app.command()
@harness_command
def explain(boot: Any, entry: Annotated[str | None, Argument(metavar="ENTRY")] = None) -> Work:
    """Say what does not run and why, or all about one entry."""
    from ._explaining import explain_entries

    return explain_entries(boot, entry)


@app.command()
@harness_command
def graph(boot: Any) -> Work:
    """Print who uses whom, as a Mermaid graph."""
    from ._explaining import draw_graph

    return draw_graph(boot)


@app.command()
def events(
    rows: Annotated[bool, Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print the events of all installed plugins."""
    from ._listing import list_events

    finish(lambda: list_events(rows=rows))


@sessions_app.command("list")
@harness_command
def sessions_list(
    boot: Any,
    name: Annotated[str | None, Argument(metavar="AGENT")] = None,
    agent: Agent = None,
    tenant: Tenant = None,
) -> Work:
    """Print the stored sessions, those used last first."""
    from ._stored import list_sessions

    return list_sessions(boot, agent or name, tenant)


@sessions_app.command("show")
@harness_command
def sessions_show(
    boot: Any,
    session: SessionId,
    agent: Agent = None,
    tenant: Tenant = None,
    events: Annotated[bool, Option("--events", help="The log, one event a line.")] = False,
) -> Work:
    """Print one stored session."""
    from ._stored import show_session

    return show_session(boot, Address(agent=agent, session=session, tenant=tenant), events=events)


@sessions_app.command("export")
@harness_command
def sessions_export(
    boot: Any,
    session: SessionId,
    agent: Agent = None,
    tenant: Tenant = None,
    protocol: Annotated[
        str, Option(metavar="log|v1", help="Events as stored, or what clients see.")
    ] = "log",
) -> Work:
    """Print a stored session, one JSON object a line."""
    from ._stored import export_session

    return export_session(boot, Address(agent=agent, session=session, tenant=tenant), protocol)


@sessions_app.command("delete")
@harness_command
def sessions_delete(
    boot: Any, session: SessionId, agent: Agent = None, tenant: Tenant = None
) -> Work:
    """Remove a stored session for good; one that is in use is refused."""
    from ._stored import delete_session

    return delete_session(boot, Address(agent=agent, session=session, tenant=tenant))


@sessions_app.command("fork")
@harness_command
def sessions_fork(
    boot: Any,
    session: SessionId,
    agent: Agent = None,
    tenant: Tenant = None,
    at: Annotated[int | None, Option(metavar="SEQ", help="The last event to take over.")] = None,
    new: Annotated[str | None, Option("--as", metavar="NEW", help="The id of the fork.")] = None,
) -> Work:
    """Store a copy that can be continued on its own, and print its id."""
    from ._stored import fork_session

    return fork_session(boot, Address(agent=agent, session=session, tenant=tenant), at, new)


def run_app(words: Sequence[str]) -> None:
    """Runs a command line; always ends in `SystemExit` with the exit code."""
    known = {
        command.name or getattr(command.callback, "__name__", "")
        for command in app.registered_commands
    }
    known |= {group.name or "" for group in app.registered_groups}
    first = next((word for word in words if not word.startswith("-")), None)
    if first is not None and first not in known:  # a command that a plugin adds, or a slip
        from terret_context import TerretError
        from terret_loader import load_hooks

        try:
            load_hooks().commands(app)
        except TerretError as error:
            typer.echo(f"terret: {error}", err=True)
    app(args=list(words), prog_name="terret")
