"""Talks to a Terret service: messages, turns, approvals, questions, sessions."""
