"""What holds for every test: no network, and hypothesis tries the same examples in every run."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest
from hypothesis import settings

# pictures are drawn to files; a screen is never asked for
os.environ.setdefault("MPLBACKEND", "agg")

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that opens a connection beyond this machine fails."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else "localhost"
        if host not in {"localhost", "127.0.0.1", "::1"}:
            pytest.fail(f"a test opened a connection to {address!r}: tests use no network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
