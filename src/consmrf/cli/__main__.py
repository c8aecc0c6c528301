"""`python -m consmrf.cli` is the command `consmrf`."""

from __future__ import annotations

import sys

from consmrf.cli import main

sys.exit(main())
