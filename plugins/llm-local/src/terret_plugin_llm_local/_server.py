import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from ._errors import unusable_model

_BATCH = 256
"""Tokens between two looks at whether the client is still there: about a second of reading."""
_CACHE_MIB = 64


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What makes two servers different."""

    path: Path
    threads: int
    context_size: int


class ModelServer:
    """The llama.cpp server of one model, inside this process, on a port of the loopback interface.

    It stops when nobody refers to it any more.
    """

    def __init__(self, settings: ServerSettings) -> None:
        import xllamacpp  # 100 MB of machine code: not before a model is needed

        self.key = secrets.token_urlsafe()
        params = xllamacpp.CommonParams()
        params.verbosity = 0
        params.model.path = str(settings.path)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
        params.n_ctx = settings.context_size
        params.n_batch = _BATCH
        params.n_parallel = 1
        params.cache_ram_mib = _CACHE_MIB
        params.api_keys = [self.key]
        params.ui = False
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise unusable_model(settings.path, "llama.cpp cannot load it") from error
        self.url: str = self._server.listening_address


running: WeakValueDictionary[ServerSettings, ModelServer] = WeakValueDictionary()
_starting = threading.Lock()


def shared_server(settings: ServerSettings) -> ModelServer:
    """The server of this process with these settings; starts it if there is none.

    Blocks while the model is loaded. Safe from any thread. Raises LlmError if it cannot be loaded.
    """
    with _starting:
        server = running.get(settings)
        if server is None:
            server = running[settings] = ModelServer(settings)
        return server
