"""``python -m grain.head``: Gnaw, the scheduler that missions share."""

import sys

from grain.head._gnaw import main

if __name__ == "__main__":
    sys.exit(main())
