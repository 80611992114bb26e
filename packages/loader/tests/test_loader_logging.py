"""The entry `logging`: outputs, levels, redaction and the last records."""

import json
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from terret_context import Container, Context, plugin
from terret_loader import Loader, open_harness

Write = Callable[..., Path]
Read = pytest.CaptureFixture[str]


def harness(**settings: object) -> str:
    given = ", ".join(f"{key}: {value}" for key, value in {"format": "json", **settings}.items())
    return f"plugins: {{logging: {{{given}}}, bash: {{use: ./talk.py, apiKey: '${{env:KEY}}'}}}}"


TALK = """
import logging
import sys
import traceback
from pydantic import SecretStr
from terret_context import Config, plugin

class TalkConfig(Config):
    api_key: SecretStr = SecretStr("")

@plugin(name="talk", config=TalkConfig)
def talk(ctx, config):
    ctx.provide("talk", ctx)
"""

ENV = {"KEY": "sk-0123456789"}


def talker(root: Container) -> Context:
    fiber = root[Loader].fiber("bash")
    assert fiber is not None
    ctx: Context = fiber.ctx
    return ctx


def lineno(error: Exception) -> int | None:
    return traceback.extract_tb(error.__traceback__)[0].lineno


def shown(capsys: Read) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


async def test_records_carry_plugin_entry_and_fiber(write: Write, capsys: Read) -> None:
    """C-151: debug is hidden by default; Python's logging takes the same way."""
    write(harness(), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.info("hello", times=3)
        talker(root).logger.debug("hidden")
        logging.getLogger("elsewhere").warning("old %s", "style")
    hello, old = shown(capsys)
    assert hello.pop("timestamp")
    assert old.pop("timestamp")
    assert hello == {
        "event": "hello",
        "level": "info",
        "plugin": "talk",
        "entry": "harness.yml#bash",
        "fiber": 3,
        "times": 3,
    }
    assert old == {"event": "old style", "level": "warning", "logger": "elsewhere"}


@pytest.mark.parametrize("name", ["talk", "bash"])
async def test_levels_are_set_per_plugin_or_entry(write: Write, capsys: Read, name: str) -> None:
    """C-038, C-151."""
    write(harness(level="error", levels=f"{{{name}: debug}}"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.debug("seen")
        root.logger.warning("not seen")
    assert [record["event"] for record in shown(capsys)] == ["seen"]


async def test_secrets_appear_in_no_output(write: Write, capsys: Read) -> None:
    """C-295: by type, by key, and by value wherever it appears, exception texts included."""
    write(harness(), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        log = talker(root).logger
        log.info("a sk-0123456789", value=[SecretStr("hidden-1")], access_token="hidden-2")
        log.info("keys", headers={"X-Api-Key": "hidden-3", "Set-Cookie": "hidden-4"})
        try:
            raise ValueError("refused sk-0123456789")
        except ValueError:
            log.exception("failed")
            logging.getLogger("elsewhere").exception("failed")
        recent = root[Loader].recent(10)
    text = capsys.readouterr().err + repr(recent)
    assert "sk-0123456789" not in text
    assert "hidden" not in text
    assert "ValueError: refused [redacted]" in text


async def test_a_part_of_a_secret_is_hidden_too(write: Write, capsys: Read) -> None:
    """C-295: what stands around an interpolation is no part of the secret."""
    write(harness().replace("'${env:KEY}'", "'Bearer ${env:KEY}'"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.info("sent sk-0123456789 as Bearer sk-0123456789")
    (record,) = shown(capsys)
    assert record["event"] == "sent [redacted] as [redacted]"


async def test_the_last_records_are_kept_whatever_the_level(write: Write, capsys: Read) -> None:
    """C-296."""
    write(harness(level="critical"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        loader, ctx = root[Loader], talker(root)
        for number in range(1_010):
            ctx.logger.debug("step", number=number)
        root.logger.info("other")
        assert [record["event"] for record in loader.recent(2)] == ["step", "other"]
        assert len(loader.recent(5_000)) == 1_000
        assert [r["number"] for r in loader.recent(2, ctx.fiber)] == [1_008, 1_009]
        assert loader.recent(0) == []
    assert shown(capsys) == []


async def test_objects_are_shown_by_a_bounded_repr(write: Write, capsys: Read) -> None:
    """C-149: a failing repr does not fail the call."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    write(harness(), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.info("values", broken=Broken(), large=bytes(10_000))
    (record,) = shown(capsys)
    assert record["broken"] == "<Broken: repr failed with RuntimeError>"
    assert len(str(record["large"])) == 2_003


async def test_a_contained_failure_is_rendered_with_its_plugin(write: Write, capsys: Read) -> None:
    """C-148."""
    write(harness(), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).report(ExceptionGroup("g", [ValueError("a"), KeyError("b")]), label="work")
    first, second = shown(capsys)
    assert (first["plugin"], first["level"]) == ("talk", "error")
    assert "ValueError: a" in str(first["event"])
    assert "KeyError: 'b'" in str(second["event"])


async def test_the_console_format_is_a_line_for_people(write: Write, capsys: Read) -> None:
    """C-151, C-295: who, what, data; of an error its place, without a page of traceback."""
    write(harness(format="console"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.info("hello", times=3, key="sk-0123456789")
        logging.getLogger("elsewhere").warning("old style")
        try:
            raise ValueError("refused sk-0123456789")
        except ValueError as error:
            place = f"test_loader_logging.py, line {lineno(error)}"
            talker(root).logger.error("failed", exc_info=error)
            talker(root).report(error, label="work")
    assert capsys.readouterr().err.splitlines() == [
        "info: bash: hello (times=3, key=[redacted])",
        "warning: elsewhere: old style",
        f"error: bash: failed: ValueError: refused [redacted] ({place})",
        'error: talk: work of plugin "talk" (harness.yml#bash) failed: '
        f"ValueError: refused [redacted] ({place})",
    ]


@pytest.mark.parametrize("tracebacks", [True, False])
async def test_the_console_shows_tracebacks_on_demand(
    write: Write, capsys: Read, tracebacks: bool
) -> None:
    """C-295."""
    write(harness(format="console", tracebacks=str(tracebacks).lower()), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).report(ValueError("refused sk-0123456789"), label="work")
    first, *more = capsys.readouterr().err.splitlines()
    assert first.endswith('"talk" (harness.yml#bash) failed: ValueError: refused [redacted]')
    assert bool(more) is tracebacks


@pytest.mark.parametrize(("terminal", "start"), [(True, "info: bash: hello"), (False, "{")])
async def test_by_default_a_terminal_gets_lines_and_a_file_json(
    write: Write, capsys: Read, monkeypatch: pytest.MonkeyPatch, terminal: bool, start: str
) -> None:
    """C-151."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    write(harness(format="auto"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        talker(root).logger.info("hello")
    assert capsys.readouterr().err.startswith(start)


async def test_who_starts_a_harness_may_give_defaults(write: Write, capsys: Read) -> None:
    """The file wins over them."""
    write(harness(format="json").replace("format: json", ""), talk__py=TALK)
    defaults = ["logging.format=console", "logging.level=error"]
    async with open_harness("harness.yml", env=ENV, defaults=defaults) as root:
        talker(root).logger.error("seen")
        talker(root).logger.info("hidden")
    write(harness(format="json"), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV, defaults=defaults) as root:
        talker(root).logger.error("seen")
    assert [line[0] for line in capsys.readouterr().err.splitlines()] == ["e", "{"]


async def test_the_entry_leaves_logging_as_it_was(write: Write) -> None:
    """C-337: also when it is changed at run time."""
    path = write(harness(levels="{elsewhere: debug}"), talk__py=TALK)
    handlers, level = list(logging.getLogger().handlers), logging.getLogger("elsewhere").level
    async with open_harness("harness.yml", env=ENV) as root:
        assert logging.getLogger("elsewhere").level == logging.DEBUG
        path.write_text(harness())
        await root[Loader].reconcile()
        assert logging.getLogger("elsewhere").level == level
    assert logging.getLogger().handlers == handlers


async def test_a_harness_may_do_without_the_entry(write: Write) -> None:
    """C-296: nothing is kept then."""
    write("plugins: {logging: null}")
    async with open_harness("harness.yml") as root:
        root.logger.info("anywhere")
        assert root[Loader].recent(5) == []


async def test_a_call_through_a_service_names_its_caller(write: Write, capsys: Read) -> None:
    """C-039."""

    @plugin(inject=(Loader,))
    def curious(ctx: Context) -> None:
        ctx[Loader].logger.info("asked")

    write(harness(), talk__py=TALK)
    async with open_harness("harness.yml", env=ENV) as root:
        await root.plugin(curious).ready()
    (record,) = shown(capsys)
    assert (record["plugin"], record["caller"]) == ("loader", "curious")


async def test_without_the_entry_any_handler_gets_the_record_as_text(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """C-296."""
    write("plugins: {logging: null}")
    async with open_harness("harness.yml") as root:
        root.logger.warning("it went wrong", times=3)
    assert caplog.messages == ["it went wrong times=3"]
