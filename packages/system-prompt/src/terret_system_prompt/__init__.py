"""Sections, variables and assembly of the system prompt."""
