"""The addresses that answers name."""

from collections.abc import Mapping
from urllib.parse import quote

from terret_sessions import SessionKey

from ._conversations import Item


class Links:
    """Paths below the base path of the service."""

    def __init__(self, base_path: str) -> None:
        self.base_path = base_path

    def session(self, key: SessionKey) -> str:
        """Returns where the status of a session is."""
        return f"{self.base_path}/agents/{_segment(key.agent)}/sessions/{_segment(key.raw_id)}"

    def decisions(self, item: Item) -> Mapping[str, str]:
        """Returns where an item is decided or answered."""
        if item.kind == "approval":
            url = f"{self.base_path}/approvals/{_segment(item.id)}"
            return {"approveUrl": f"{url}/approve", "denyUrl": f"{url}/deny"}
        return {"answerUrl": f"{self.base_path}/questions/{_segment(item.id)}/answer"}


def _segment(text: str) -> str:
    return quote(text, safe="")
