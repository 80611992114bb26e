"""The process in which programs run: it executes them and sends their tool calls to the host.

It is started with `-c` and this source, by whatever Python is configured, and so imports nothing
but the standard library. Frames are lines of JSON, in on stdin and out on stdout; what programs
write to their own stdout and stderr arrives on stderr.
"""

import ast
import json
import linecache
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any


class ToolError(Exception):
    """A tool failed, or its call was denied."""


class Host:
    """The other end of stdin and stdout."""

    def __init__(self) -> None:
        self.programs: queue.Queue[dict[str, Any]] = queue.Queue()
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._input = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._turn = threading.Lock()
        self._process = os.getpid()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, **frame: object) -> None:
        line = json.dumps(frame, allow_nan=False, ensure_ascii=False)
        # A lone surrogate is no text; it becomes the character that says so.
        text = line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._output.write(text + "\n")
        self._output.flush()

    @property
    def is_here(self) -> bool:
        """Whether this process has the other end, and is no fork of the one that has."""
        return os.getpid() == self._process

    def call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        if not self.is_here:
            raise ToolError(f"{name}() can be called in the first process of the program only")
        with self._turn:  # threads of a program take turns
            self.send(call=name, args=args, kwargs=kwargs)
            reply = self._replies.get()
        if "error" in reply:
            raise ToolError(reply["error"])
        value: object = reply["value"]
        return value

    def _listen(self) -> None:
        for line in self._input:
            frame = json.loads(line)
            (self.programs if "program" in frame else self._replies).put(frame)
        os._exit(0)  # the host has gone, whatever the program is doing


def take_streams() -> None:
    """Gives the streams of the process to the programs; the host keeps the originals."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = os.fdopen(os.dup(fd), "w", 1, encoding="utf-8", errors="backslashreplace")
        setattr(sys, name, stream)


def execute(code: str, number: int, namespace: dict[str, object]) -> None:
    """Runs a program as the prompt of Python would: the value of a last expression is shown."""
    source = f"<program {number}>"
    linecache.cache[source] = (len(code), None, code.splitlines(True), source)
    try:
        tree = ast.parse(code, source)
        last = tree.body[-1] if tree.body else None
        shown = last.value if isinstance(last, ast.Expr) else None
        if shown is not None:
            del tree.body[-1]
        exec(compile(tree, source, "exec"), namespace)
        if shown is not None:
            value = eval(compile(ast.Expression(shown), source, "eval"), namespace)
            if value is not None:
                print(repr(value))
    except SystemExit:
        pass
    except SyntaxError:
        traceback.print_exc(limit=0)
    except (Exception, KeyboardInterrupt) as error:
        traceback.print_exception(type(error), error, of_program(error.__traceback__))


def of_program(frames: TracebackType | None) -> TracebackType | None:
    """Leaves out what of a traceback lies in this file."""
    kept: list[TracebackType] = []
    while frames is not None:
        if frames.tb_frame.f_globals is not globals():
            kept.append(frames)
        frames = frames.tb_next
    for frame, following in zip(kept, [*kept[1:], None]):  # noqa: B905  # for any Python 3
        frame.tb_next = following
    return kept[0] if kept else None


def function(host: Host, name: str) -> Callable[..., object]:
    """Returns the function by which a program calls a tool."""

    def call(*args: object, **kwargs: object) -> object:
        return host.call(name, args, kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def main() -> None:
    host = Host()
    take_streams()
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    host.send(ready=True)
    namespace: dict[str, object] = {"__name__": "__main__", "ToolError": ToolError}
    number = 0
    while True:
        frame = host.programs.get()
        number += 1
        namespace.update((name, function(host, name)) for name in frame["functions"])
        execute(frame["program"], number, namespace)
        sys.stdout.flush()
        sys.stderr.flush()
        if not host.is_here:
            os._exit(0)  # a fork of the process has come to the end of the program, too
        os.write(2, frame["end"].encode())
        host.send(done=frame["end"])


if __name__ == "__main__":
    main()
