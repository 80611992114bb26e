"""Terret, an agent harness in which everything is a plugin: command line and composition root."""
