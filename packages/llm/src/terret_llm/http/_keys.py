import os
import shlex
import time
from subprocess import DEVNULL, PIPE

import anyio

from terret_llm._credentials import checked_api_key
from terret_llm._errors import HarnessError
from terret_llm.settings import ServerSettings

_COMMAND_SECONDS = 30.0


def key_place(settings: ServerSettings) -> str | None:
    """Where the key of a server comes from, in the words of its settings; None without a key."""
    if settings.api_key is not None:
        return "apiKey"
    if settings.api_key_command:
        return "apiKeyCommand"
    name = settings.api_key_env
    return f"the environment variable {name}" if name and os.environ.get(name) else None


class KeySource:
    """Where the key of one server comes from; asked at each request."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._printed: tuple[str, float] | None = None

    async def key(self) -> str | None:
        """The key, or None if none is configured or the server runs on this machine.

        Raises MISSING_CREDENTIAL and INVALID_CREDENTIAL; the key is in no message.
        """
        settings = self._settings
        if settings.api_key is not None:
            return checked_api_key(settings.api_key.get_secret_value(), source="apiKey")
        if settings.api_key_command:
            return await self._from_command(settings.api_key_command)
        name = settings.api_key_env
        value = os.environ.get(name, "").strip() if name else ""
        if value:
            return checked_api_key(value, source=f"the environment variable {name}")
        if not name or settings.is_loopback:
            return None
        raise HarnessError(
            f"{name} is not set, and {settings.place} needs an API key: set it, for instance in a "
            "file `.env` beside harness.yml (a server on this machine needs none)",
            "MISSING_CREDENTIAL",
        )

    async def _from_command(self, command: str) -> str:
        if self._printed is not None and time.monotonic() < self._printed[1]:
            return self._printed[0]
        key = checked_api_key(await _output(command), source="apiKeyCommand")
        self._printed = key, time.monotonic() + self._settings.api_key_ttl
        return key


async def _output(command: str) -> str:
    arguments = shlex.split(command)
    program = arguments[0] if arguments else command
    try:
        with anyio.fail_after(_COMMAND_SECONDS):
            done = await anyio.run_process(
                arguments, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, check=False
            )
    except TimeoutError:
        raise _no_key(program, f"gave no key within {_COMMAND_SECONDS:g} s") from None
    except (OSError, ValueError) as error:
        raise _no_key(program, f"cannot be run: {error}") from error
    if done.returncode != 0:
        raise _no_key(program, f"failed with exit status {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _no_key(program: str, what: str) -> HarnessError:
    return HarnessError(
        f"apiKeyCommand: {program!r} {what}; run it in a terminal to see why", "MISSING_CREDENTIAL"
    )
