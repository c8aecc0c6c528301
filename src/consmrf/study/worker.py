"""The process of one cell: `python -m consmrf.study.worker` reads a job from its standard input, and runs it.

The pipe stays open as long as the study lives. When it ends, however it ends, this process ends at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import Any

from consmrf.study.cells import write_found
from consmrf.study.measure import measure

__all__ = ["main"]

ALONE = 70  # the exit code where the study has gone


def main() -> int:
    """Run the job that the first line of the standard input holds; hand on the exit code.

    What a cell raises is said on the standard error, the last line in one sentence.
    """
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_leave_with_the_study, daemon=True).start()
    try:
        write_found(job, measure(job))
    except Exception as problem:
        traceback.print_exc()
        sentence = " ".join(str(problem).split())
        sys.stderr.write(f"{type(problem).__name__}: {sentence}\n")
        return 1
    return 0


def _leave_with_the_study() -> Any:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(ALONE)


if __name__ == "__main__":
    sys.exit(main())
