import math
import sys
from typing import Any, Final

from ._errors import LosslessJsonError

MAX_INT: Final = 2**53 - 1
MAX_DEPTH: Final = 190
"""The deepest nesting of the data of an event, so that its row can always be read back."""


def copy_json(value: object, *, max_depth: int = sys.maxsize) -> Any:
    """Return the plain copy of `value` that was validated while it was made.

    Accepted are None, bool, str, int up to 2**53-1, finite float except -0.0, list, tuple (copied
    as a list) and dict with str keys; subclasses are not. Each value is read once, without
    recursion. Raises LosslessJsonError, which names the JSON pointer of the first offender.
    """
    root: list[Any] = [None]
    _walk(value, root, max_depth)
    return root[0]


def check_json(value: object) -> object:
    """Return `value` itself; raises LosslessJsonError for what `copy_json` refuses."""
    _walk(value, None, sys.maxsize)
    return value


def check_parsed(value: object) -> object:
    """As `check_json`, for what a JSON parser gave: only numbers can be wrong, depth is limited."""
    return value if _has_good_numbers([value]) else check_json(value)


def check_text(text: str) -> None:
    """Raise ValueError if `text` holds a lone surrogate, which UTF-8 cannot carry."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"a lone surrogate at character {error.start}") from None


def _walk(value: object, root: list[Any] | None, max_depth: int) -> None:
    frames = [_Frame([value], root)]
    open_ids: set[int] = set()
    try:
        while frames:
            frame = frames[-1]
            entry = next(frame.items, None)
            if entry is None:
                frames.pop()
                open_ids.discard(id(frame.source))
                continue
            frame.key, child = entry
            if frame.has_names:
                _check_name(frame.key)
            if type(child) in _CONTAINERS:
                if id(child) in open_ids:
                    raise ValueError("the value contains itself")
                if len(frames) > max_depth:
                    raise ValueError(f"nested more than {max_depth} levels deep")
                open_ids.add(id(child))
                frames.append(frame.open(child))
            else:
                _check_scalar(child)
                frame.put(child)
    except ValueError as fault:
        raise LosslessJsonError(_pointer(frames), str(fault)) from None


def _has_good_numbers(container: Any) -> bool:
    for child in container.values() if type(container) is dict else container:
        kind = type(child)
        if kind is str:
            continue
        if kind is int:
            if not -MAX_INT <= child <= MAX_INT:
                return False
        elif kind is dict or kind is list:
            if not _has_good_numbers(child):
                return False
        elif kind is float and (not math.isfinite(child) or str(child) == "-0.0"):
            return False
    return True


class _Frame:
    """A container whose children are being read, with the copy they go to, if any."""

    __slots__ = ("has_names", "items", "key", "source", "target")

    def __init__(self, source: Any, target: Any) -> None:
        self.has_names = type(source) is dict
        self.items = iter(source.items()) if self.has_names else iter(enumerate(source))
        self.source = source  # held, so that its id stays taken while it is open
        self.target = target
        self.key: Any = 0

    def put(self, value: object) -> None:
        if self.target is not None:
            self.target[self.key] = value

    def open(self, child: Any) -> "_Frame":
        if self.target is None:
            return _Frame(child, None)
        copy: Any = {} if type(child) is dict else [None] * len(child)
        self.target[self.key] = copy
        return _Frame(child, copy)


def _check_name(name: object) -> None:
    if type(name) is not str:
        raise ValueError(f"the key {name!r:.80} is not text")
    check_text(name)


def _check_scalar(value: object) -> None:
    kind = type(value)
    if kind is str:
        check_text(value)  # type: ignore[arg-type]  # `kind` is exact, but does not narrow
    elif kind is int:
        if not -MAX_INT <= value <= MAX_INT:  # type: ignore[operator]  # as above
            raise ValueError(f"the integer {value!r:.40} is beyond 2**53-1")
    elif kind is float:
        _check_float(value)  # type: ignore[arg-type]  # as above
    elif value is not None and kind is not bool:
        raise ValueError(f"{kind.__name__} is not a JSON type")


def _check_float(number: float) -> None:
    if not math.isfinite(number):
        raise ValueError(f"the number {number!r} is not finite")
    if str(number) == "-0.0":
        raise ValueError("the number -0.0 would lose its sign")


def _pointer(frames: list[_Frame]) -> str:
    keys = (str(frame.key) for frame in frames[1:])
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


_CONTAINERS: Final = frozenset({dict, list, tuple})
