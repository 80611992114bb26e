"""Fixtures for tests of Terret plugins; pytest loads them through the entry point.

Asynchronous tests run on asyncio and on trio: anyio's fixture `anyio_backend` is parametrised
over the installed backends, and this distribution brings both.
"""
