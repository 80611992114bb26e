"""The entry `logging`: levels, output, and the removal of secrets from every record."""

import json
import logging as stdlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from pydantic import Field

from terret_context import Config, Context, plugin

from ._faults import one_line, traceback_of, with_place
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
    """`console` is a line for people; `auto` is that on a terminal, else `json`."""
    tracebacks: bool = False
    """Whether `console` shows tracebacks below the line of an error; `json` always has them."""


@plugin(name="logging", config=LoggingConfig, inject=(Loader,))
def log_output(ctx: Context, config: LoggingConfig) -> Iterator[None]:
    """Writes the records of `ctx.logger` and of Python's logging to standard error."""
    handler = _Handler(config, ctx[Loader].records)
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


class _Handler(stdlib.Handler):
    """Cleans, keeps, filters and writes records."""

    def __init__(self, config: LoggingConfig, records: Records) -> None:
        super().__init__()
        self._config = config
        self._records = records
        self._as_json = config.format == "json" or (
            config.format == "auto" and not sys.stderr.isatty()
        )

    def emit(self, record: stdlib.LogRecord) -> None:
        try:
            self._write(_fields(record), record.exc_info and record.exc_info[1])
        except Exception:
            self.handleError(record)

    def _write(self, record: dict[str, object], error: BaseException | None) -> None:
        clean = self._records.clean(record)
        self._records.keep(clean)
        if _NUMBERS[str(clean["level"]).upper()] < self._threshold(clean):
            return
        if self._as_json:
            line = json.dumps(clean, ensure_ascii=False)
        else:
            line = self._records.text(_line(clean, str(record["event"]), error))
            if self._config.tracebacks and error is not None:
                line += f"\n{clean['exception']}"
        sys.stderr.write(f"{line}\n")

    def _threshold(self, record: dict[str, object]) -> int:
        names = (_entry(record), record.get("plugin"), record.get("logger"))
        own = (self._config.levels[name] for name in names if name in self._config.levels)
        return _NUMBERS[next(own, self._config.level).upper()]


def _fields(record: stdlib.LogRecord) -> dict[str, object]:
    """Gives a record as one mapping."""
    more = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    own = more.pop("terret", None) or {"event": record.getMessage(), "logger": record.name}
    fields = {"level": record.levelname.lower(), **own, **more}
    if record.exc_info and record.exc_info[1] is not None:
        fields["exception"] = traceback_of(record.exc_info[1])
    time = datetime.fromtimestamp(record.created, UTC)
    return {**fields, "timestamp": time.isoformat().replace("+00:00", "Z")}


_STANDARD: Final = {*vars(stdlib.makeLogRecord({})), "message", "asctime", "taskName"}


def _line(record: dict[str, object], event: str, error: BaseException | None) -> str:
    """Renders a record as `level: who: event (key=value)`."""
    who = _entry(record) or record.get("plugin") or record.get("logger")
    if "fault" in record:
        return f"{record['level']}: {event}: {record['fault']}"
    if error is not None:
        what, text = with_place(error), one_line(error)
        event = event.replace(text, what) if text in event else f"{event}: {what}"
    data = ", ".join(f"{key}={record[key]}" for key in record if key not in _IN_LINE)
    return f"{record['level']}: {who}: {event}{f' ({data})' if data else ''}"


_IN_LINE: Final = {
    *("level", "event", "entry", "plugin", "fiber", "logger", "exception", "timestamp"),
}


def _entry(record: dict[str, object]) -> str:
    return str(record.get("entry") or "").rpartition("#")[2]
