"""A service that answers requests by a script, for tests of its client."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from terret_client import TerretClient

SSE = {"Content-Type": "text/event-stream; charset=utf-8"}


@dataclass
class ScriptedService:
    """Answers each request with the next answer; an error stands for no answer."""

    answers: list[httpx2.Response | httpx2.HTTPError] = field(default_factory=list)
    requests: list[httpx2.Request] = field(default_factory=list)

    def client(self, **settings: Any) -> TerretClient:
        transport = httpx2.MockTransport(self._handle)
        return TerretClient("http://service/", transport=transport, **settings)

    def stream(self, *pieces: bytes, cut: bool = False, session: str = "s-1") -> "ScriptedService":
        """The next answer is a stream of these pieces, which may end by a broken connection."""

        headers = {**SSE, "Terret-Session-Id": session}

        async def body() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece
            if cut:
                raise httpx2.ReadError("cable pulled")

        self.answers.append(httpx2.Response(200, headers=headers, content=body()))
        return self

    def json(self, status: int, body: object, **headers: str) -> "ScriptedService":
        """The next answer is an object."""
        self.answers.append(httpx2.Response(status, json=body, headers=headers))
        return self

    def nothing(self, times: int = 1) -> "ScriptedService":
        """Nobody answers the next requests."""
        self.answers += [httpx2.ConnectError("refused")] * times
        return self

    @property
    def lines(self) -> list[str]:
        """The requests, with the cursor they have."""
        return [
            f"{each.method} {each.url.raw_path.decode()} {each.headers.get('last-event-id', '-')}"
            for each in self.requests
        ]

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx2.HTTPError):
            raise answer
        return answer


def frame(type: str, cursor: str | None = None, **fields: object) -> bytes:
    """An event as it stands in a stream."""
    id = "" if cursor is None else f"id: {cursor}\n"
    data = json.dumps({"type": type, **fields})
    return f"event: {type}\ndata: {data}\n{id}\n".encode()
