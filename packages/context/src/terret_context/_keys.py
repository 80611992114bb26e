"""Service keys: what a service is looked up by."""

import re
from typing import Generic, TypeAlias, TypeVar

from typing_extensions import TypeForm

from ._errors import PluginDefinitionError

T = TypeVar("T", covariant=True)
S = TypeVar("S")


class ServiceKey(Generic[T]):
    """A typed key of a service whose type is no `Service` class.

    `SHELL: ServiceKey[Shell] = ServiceKey("shell")`. Names are camelCase; two keys of one name are
    the same key.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[a-z][A-Za-z0-9]*", name):
            raise ValueError(f'a service name is camelCase, like "systemPrompt", not "{name}"')
        self.name = name

    def __repr__(self) -> str:
        return f'ServiceKey("{self.name}")'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServiceKey) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("ServiceKey", self.name))


Key: TypeAlias = "ServiceKey[S] | TypeForm[S]"
AnyKey: TypeAlias = "ServiceKey[object] | type[object] | str"


def key_name(key: object) -> str:
    """Returns the name of a key given as `ServiceKey`, service class or text.

    An abstract class or protocol is a key if it has the class attribute `__service_key__`.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, ServiceKey):
        return key.name
    name = getattr(key, "__service_key__", None)
    if isinstance(name, str):
        return name
    raise PluginDefinitionError(
        f"{key!r} is no service key: use a ServiceKey, a Service class with `key=`, or a name"
    )


def python_name(key: str) -> str:
    """Returns the Python spelling of a camelCase key: `systemPrompt` is `system_prompt`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), key)


def wire_name(attribute: str) -> str:
    """Returns the camelCase key that a Python attribute stands for."""
    head, *rest = attribute.split("_")
    return head + "".join(part.capitalize() for part in rest)
