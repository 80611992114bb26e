"""What a harness is, for people and editors: its settings, its document, its schema."""

from ._json_schema import harness_schema
from ._settings import Setting, merged_document, settings

__all__ = ["Setting", "harness_schema", "merged_document", "settings"]
