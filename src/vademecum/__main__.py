"""``python -m vademecum``."""

import sys

from vademecum.cli import main

sys.exit(main())
