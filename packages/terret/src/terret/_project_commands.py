"""The commands that make projects and serve them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ._ending import finish
from ._options import Verbose, Work, harness_command


def add_project_commands(app: typer.Typer) -> None:
    """Adds the commands of this module."""
    app.command()(init)
    app.command("add-agent")(add_agent)
    app.command("add-subagent")(add_subagent)
    app.command()(serve)
    app.command()(dev)


Host = Annotated[str | None, Option(metavar="ADDRESS", help="Where to listen: 127.0.0.1.")]
Port = Annotated[int | None, Option(metavar="PORT", min=0, max=65535, help="Its port: 8787.")]


def init(
    folder: Annotated[Path, Argument(metavar="[DIR]", help="Default: here.")] = Path("."),
    verbose: Verbose = False,
) -> None:
    """Write a new project with an agent that runs at once."""
    from ._projects import new_project

    finish(lambda: new_project(folder), verbose=verbose)


@harness_command
def add_agent(
    boot: Any,
    name: Annotated[str, Argument(metavar="NAME")],
    system_prompt: Annotated[
        str | None, Option("--system-prompt", metavar="TEXT", help="What the agent is told.")
    ] = None,
    provider: Annotated[
        str | None, Option(metavar="NAME", help="Who answers; default: anthropic.")
    ] = None,
    model: Annotated[
        str | None, Option(metavar="NAME", help="Needed for a provider without a usual one.")
    ] = None,
    python: Annotated[bool, Option("--python", help="Write agent.py, not agent.yml.")] = False,
) -> Work:
    """Write the file of a new agent."""
    from ._projects import add_agent as add

    return add(
        boot, name, system_prompt=system_prompt, provider=provider, model=model, python=python
    )


@harness_command
def add_subagent(
    boot: Any,
    parent: Annotated[str, Argument(metavar="PARENT", help="An agent, or a path such as a/b.")],
    name: Annotated[str, Argument(metavar="NAME")],
) -> Work:
    """Write the file of a new agent that another one can call."""
    from ._projects import add_subagent as add

    return add(boot, parent, name)


@harness_command
def serve(boot: Any, host: Host = None, port: Port = None) -> Work:
    """Serve the agents over HTTP."""
    from ._link import Link
    from ._serving import serve

    if (link := Link.inherited()) is not None:
        from ._child import serve_under

        return serve_under(link, boot, host, port)
    return serve(boot, host, port)


@harness_command
def dev(boot: Any, host: Host = None, port: Port = None) -> Work:
    """Serve, and follow changes of the project."""
    from ._dev import develop

    flags = [] if host is None else ["--host", host]
    return develop(boot, [*boot.flags, *flags, *([] if port is None else ["--port", str(port)])])
