"""``python -m grain.head``: Gnaw, the scheduler that missions share."""

import gc
import sys

from grain.head.gnaw.main import main

if __name__ == "__main__":
    # A million tasks are a million records that live for hours, hold no cycles, and would be
    # walked again for every 700 new ones: a third of what it costs to take them in. No other code
    # shares the process, so this module may decide that.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.exit(main())
