"""The command line: reads what was typed, calls the stages, prints what they hand back.

Exit codes: 0 done; 1 a user's mistake; 2 a command line that cannot be parsed; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and hand on its exit code.

    The commands are loaded here, inside: that takes a moment, in which ctrl-C may come as well as later.
    """
    try:
        from consmrf.cli.commands import run

        return run(arguments)
    except KeyboardInterrupt:
        print("consmrf: error: interrupted", file=sys.stderr)
        return 130
