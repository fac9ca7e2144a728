"""`python -m pdl` is `pdl`."""

import sys

from pdl.cli import main

sys.exit(main())
