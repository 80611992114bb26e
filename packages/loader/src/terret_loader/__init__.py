"""From harness.yml to a tree of running Terret plugins."""

from terret_loader._entries import Entry
from terret_loader._env import read_env_file
from terret_loader._faults import Fault, HarnessConfigError, Origin, Source
from terret_loader._host import HookError, Hooks, InstalledPlugin, installed_plugins, load_hooks
from terret_loader._plan import Plan, check_document
from terret_loader._service import ENTRY, READY, Loader, open_harness
from terret_loader._tree import EntryChange

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
    "Origin",
    "Plan",
    "Source",
    "check_document",
    "installed_plugins",
    "load_hooks",
    "open_harness",
    "read_env_file",
]
