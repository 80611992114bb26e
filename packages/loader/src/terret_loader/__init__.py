"""From harness.yml to a tree of running Terret plugins."""

from ._boot import open_harness
from ._entries import Entry
from ._env import read_env_file
from ._faults import Fault, HarnessConfigError, Origin, Source
from ._host import HookError, Hooks, InstalledPlugin, installed_plugins, load_hooks
from ._nodes import Node
from ._plan import Plan, check_document
from ._resolving import load_plugin
from ._service import ENTRY, READY, Loader
from ._tree import EntryChange
from ._yaml import read_yaml

__all__ = [
    "ENTRY",
    "READY",
    "Entry",
    "EntryChange",
    "Fault",
    "HarnessConfigError",
    "HookError",
    "Hooks",
    "InstalledPlugin",
    "Loader",
    "Node",
    "Origin",
    "Plan",
    "Source",
    "check_document",
    "installed_plugins",
    "load_hooks",
    "load_plugin",
    "open_harness",
    "read_env_file",
    "read_yaml",
]
