"""``python -m grain.cli``: the `grain` command of this very interpreter."""

from grain.cli.app import main

if __name__ == "__main__":
    main(prog_name="grain")
