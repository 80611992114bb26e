"""Adapters of model servers over HTTP: keys, time limits and errors are the same for all."""

from ._adapter import HttpAdapter
from ._clients import ClientPool
from ._serving import serving
from ._wire import HttpWire

__all__ = ["ClientPool", "HttpAdapter", "HttpWire", "serving"]
