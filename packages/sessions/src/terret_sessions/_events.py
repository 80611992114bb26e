from dataclasses import field
from typing import Literal

from terret_llm import slotted

from ._event_types import event_type, plain_object
from ._sources import Sources


@slotted
class Replace:
    """Puts an event in the place of the surface nodes from seq `start` to seq `end`."""

    start: int
    end: int


SurfaceOp = Literal["append"] | Replace


@slotted
class SessionEvent:
    """One event of a log, read-only by typing.

    `view` is the typed payload, or a plain JSON object for a type without one; `time` is epoch
    milliseconds. `surface_op` and `sources` stand on surface types only.
    """

    type: str
    seq: int
    time: int
    view: object = field(hash=False)
    surface_op: SurfaceOp | None = None
    sources: Sources | None = None
    ignorable: bool = False
    _data: dict[str, object] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def data(self) -> dict[str, object]:
        """The JSON object of the row, with wire keys. Built once; not to be changed."""
        data = self._data
        if data is None:
            data = wire_data(self)
            object.__setattr__(self, "_data", data)
        return data


def wire_data(event: SessionEvent) -> dict[str, object]:
    """As `event.data`, but nothing is kept that was not there."""
    if event._data is not None:
        return event._data
    declared = event_type(event.type)
    return plain_object(event.view) if declared is None else declared.encode(event.view)
