"""The entry `logging`: levels, output, and the removal of secrets from every record."""

import json
import logging as stdlib
import sys
from collections.abc import Iterator, MutableMapping
from typing import Final, Literal, TypeAlias

import structlog
from pydantic import Field

from terret_context import Config, Context, plugin

from ._records import Records
from ._service import Loader

Level: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

_NUMBERS: Final = stdlib.getLevelNamesMapping()


class LoggingConfig(Config):
    """What is written, and how."""

    level: Level = "info"
    """Records below this level are not written; they are kept all the same."""
    levels: dict[str, Level] = Field(default={})
    """Other levels for single plugins, entries or Python loggers, by name."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` is `console` on a terminal, else `json`."""


@plugin(name="logging", config=LoggingConfig, inject=(Loader,))
def log_output(ctx: Context, config: LoggingConfig) -> Iterator[None]:
    """Writes the records of structlog and of Python's logging to standard error."""
    output = _Output(config, ctx[Loader].records)
    processors: list[structlog.types.Processor] = structlog.get_config()["processors"]
    replaced = processors[:]
    # In place, because loggers that exist already hold this very list.
    processors[:] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        output,
    ]
    handler = _Handler(output)
    root = stdlib.getLogger()
    root.addHandler(handler)
    loggers = [stdlib.getLogger(name) for name in ("terret", *config.levels)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_NUMBERS[config.levels.get(logger.name, "debug").upper()])
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    root.removeHandler(handler)
    processors[:] = replaced


class _Output:
    """The last processor of the chain: it cleans, keeps, filters and writes a record."""

    def __init__(self, config: LoggingConfig, records: Records) -> None:
        self._config = config
        self._records = records
        self._stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        on_terminal = sys.stderr.isatty()
        as_text = config.format == "console" or (config.format == "auto" and on_terminal)
        self._console = structlog.dev.ConsoleRenderer(colors=on_terminal) if as_text else None

    def __call__(
        self, logger: object, method: str, record: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        self.write(record)
        raise structlog.DropEvent

    def write(self, record: MutableMapping[str, object]) -> None:
        """Takes one record with its `event` and `level`."""
        stamped = self._stamp(None, "", record)
        clean = self._records.clean(structlog.processors.format_exc_info(None, "", stamped))
        self._records.keep(clean)
        if _NUMBERS[str(clean["level"]).upper()] >= self._threshold(clean):
            sys.stderr.write(f"{self._rendered(clean)}\n")

    def _threshold(self, record: MutableMapping[str, object]) -> int:
        entry = str(record.get("entry", "")).rpartition("#")[2]
        names = (entry, record.get("plugin"), record.get("logger"))
        own = (self._config.levels[name] for name in names if name in self._config.levels)
        return _NUMBERS[next(own, self._config.level).upper()]

    def _rendered(self, record: dict[str, object]) -> object:
        if self._console is None:
            return json.dumps(record, ensure_ascii=False)
        return self._console(None, "", record.copy())


class _Handler(stdlib.Handler):
    """Brings the records of Python's logging into the same form."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: stdlib.LogRecord) -> None:
        try:
            extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
            fields = {"event": record.getMessage(), "level": record.levelname.lower(), **extra}
            fields["logger"] = record.name
            if record.exc_info:
                fields["exc_info"] = record.exc_info
            self._output.write(fields)
        except Exception:
            self.handleError(record)


_STANDARD: Final = {*vars(stdlib.makeLogRecord({})), "message", "asctime", "taskName"}
