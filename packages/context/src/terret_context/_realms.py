"""Realms: name spaces for service keys, and which of them a view looks into."""

from typing import TypeAlias


class Realm:
    """A name space for one key, by identity. The realm of a key that is not isolated is `None`."""

    __slots__ = ("__weakref__", "fresh", "label")

    def __init__(self, label: str, *, fresh: bool = False) -> None:
        self.label = label
        self.fresh = fresh

    def __repr__(self) -> str:
        return f"<realm {self.label}>"


Slot: TypeAlias = tuple[str, Realm | None]


class RealmMap:
    """The realms of an isolated view; for other keys those of the view it was made from hold."""

    __slots__ = ("own", "upper")

    def __init__(self, upper: "RealmMap | None") -> None:
        self.own: dict[str, Realm] = {}
        self.upper = upper

    def find(self, key: str) -> Realm | None:
        realms: RealmMap | None = self
        while realms is not None:
            if key in realms.own:
                return realms.own[key]
            realms = realms.upper
        return None
