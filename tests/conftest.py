"""Fixtures of the tests across packages."""

from end_to_end import chat_server, project

__all__ = ["chat_server", "project"]
