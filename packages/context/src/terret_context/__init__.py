"""The container of Terret: contexts, fibers, effects, services, scopes and events."""

from typing import TYPE_CHECKING

from ._container import Container
from ._context import Context, Root
from ._effects import Effect
from ._errors import (
    ApiRangeError,
    AsyncEffectError,
    ConfigError,
    ConfigFault,
    ContextError,
    DuplicateEntryError,
    DuplicateServiceError,
    EventConflictError,
    EventModeError,
    InactiveFiberError,
    InvalidEffectError,
    LifecycleDeadlockError,
    NextCalledTwiceError,
    NotInjectedError,
    NotProvidedError,
    PluginDefinitionError,
    PluginFailedError,
    ReservedNameError,
    RestartBudgetError,
    ScopeLinkError,
    ServiceGoneError,
    ServiceUnavailableError,
    SubjectError,
    TeardownTimeoutError,
    TerretError,
    UnknownEventError,
    WrongThreadError,
    did_you_mean,
)
from ._events import (
    Bail,
    Emit,
    Event,
    Next,
    Parallel,
    Serial,
    Waterfall,
    event_catalog,
    find_event,
)
from ._fiber import Fiber
from ._internal import (
    INTERNAL_ERROR,
    INTERNAL_PLUGIN,
    INTERNAL_SERVICE,
    INTERNAL_STATUS,
    ContainedError,
    ServiceChange,
    StatusChange,
)
from ._keys import ServiceKey, key_name
from ._layers import AnonymousLayers, NamedLayers
from ._plugins import API_VERSION, Plugin, as_plugin, kebab, plugin
from ._registrations import Registration
from ._scopes import ScopeLink, link_scope, scope_chain, scope_of
from ._service import Service
from ._services import Provision
from ._states import FiberState
from ._tasks import TaskHandle

if TYPE_CHECKING:
    from ._config import Config
else:
    from ._models import __getattr__ as __getattr__  # Config, on first use

__all__ = [
    "API_VERSION",
    "INTERNAL_ERROR",
    "INTERNAL_PLUGIN",
    "INTERNAL_SERVICE",
    "INTERNAL_STATUS",
    "AnonymousLayers",
    "ApiRangeError",
    "AsyncEffectError",
    "Bail",
    "Config",
    "ConfigError",
    "ConfigFault",
    "ContainedError",
    "Container",
    "Context",
    "ContextError",
    "DuplicateEntryError",
    "DuplicateServiceError",
    "Effect",
    "Emit",
    "Event",
    "EventConflictError",
    "EventModeError",
    "Fiber",
    "FiberState",
    "InactiveFiberError",
    "InvalidEffectError",
    "LifecycleDeadlockError",
    "NamedLayers",
    "Next",
    "NextCalledTwiceError",
    "NotInjectedError",
    "NotProvidedError",
    "Parallel",
    "Plugin",
    "PluginDefinitionError",
    "PluginFailedError",
    "Provision",
    "Registration",
    "ReservedNameError",
    "RestartBudgetError",
    "Root",
    "ScopeLink",
    "ScopeLinkError",
    "Serial",
    "Service",
    "ServiceChange",
    "ServiceGoneError",
    "ServiceKey",
    "ServiceUnavailableError",
    "StatusChange",
    "SubjectError",
    "TaskHandle",
    "TeardownTimeoutError",
    "TerretError",
    "UnknownEventError",
    "Waterfall",
    "WrongThreadError",
    "as_plugin",
    "did_you_mean",
    "event_catalog",
    "find_event",
    "kebab",
    "key_name",
    "link_scope",
    "plugin",
    "scope_chain",
    "scope_of",
]
