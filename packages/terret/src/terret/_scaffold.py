"""`terret plugin new`: the beginnings of a plugin."""

import re
from pathlib import Path
from typing import Final

import typer

from ._errors import DONE, CommandError

MODULE: Final = '''\
"""Gives the model a tool that greets."""

from terret_context import Config, Context, plugin
from terret_tools import Tools, tool


class PLUGINConfig(Config):
    """Settings of the entry `NAME`."""

    greeting: str = "Hello"
    """The word in front of the name."""


@plugin(config=PLUGINConfig, inject=(Tools,))
def MODULE(ctx: Context, config: PLUGINConfig) -> None:
    """Registers the tool, for as long as the plugin runs."""

    @tool
    def greet(name: str) -> str:
        """Greet somebody.

        Args:
            name: Who is greeted.
        """
        return f"{config.greeting}, {name}!"

    ctx[Tools].register(greet)
'''

TEST: Final = '''\
"""The plugin in a running harness, with a model that answers from a script."""

import pytest
from MODULE import MODULE
from terret_testing import call, say, script


@pytest.mark.anyio
async def test_the_model_can_greet(harness):
    model = script(call("greet", name="Ada"), say("Done."))
    async with harness(plugins=[(MODULE, {"greeting": "Good morning"})], model=model) as running:
        assert await running.send("Greet Ada.") == "Done."
        assert "result: Good morning, Ada!" in running.transcript
'''

README: Final = """\
# NAME

Gives the model a tool that greets. In `harness.yml`, with the path as seen from that file:

```yaml
plugins:
  NAME: {use: ./NAME/MODULE.py, greeting: "Good morning"}
```

The test runs it in a harness: `pip install pytest terret-testing`, then `pytest` in this folder.
`terret plugin check MODULE.py` finds what a test does not.

To share it, make a distribution of it that names it in the group of plugins; whoever installs that
writes `NAME: {}`:

```toml
[project.entry-points."terret.plugins"]
NAME = "MODULE:MODULE"
```
"""


def new_plugin(folder: Path) -> int:
    """Writes module, test and README into a new folder; if it is there, writes nothing."""
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise CommandError(f'"{name}" is no name for a plugin: use lowercase words joined by "-"')
    if folder.exists():
        raise CommandError(f"{folder} exists already; nothing was written")
    module = name.replace("-", "_")
    texts = {f"{module}.py": MODULE, f"test_{module}.py": TEST, "README.md": README}
    names = {"NAME": name, "MODULE": module, "PLUGIN": "".join(map(str.title, name.split("-")))}
    folder.mkdir(parents=True)
    for file, text in texts.items():
        filled = re.sub("NAME|MODULE|PLUGIN", lambda word: names[word[0]], text)
        (folder / file).write_text(filled, encoding="utf-8")
        typer.echo(folder / file)
    typer.echo(f"Try it: terret plugin check {folder / module}.py, and pytest {folder}")
    return DONE
