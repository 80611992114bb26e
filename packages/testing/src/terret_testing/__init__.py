"""Test support for Terret plugins: a scripted model, fixtures, contract suites."""
