"""The command line as a module: ``python -m rankloop``."""

from rankloop.cli import main

if __name__ == "__main__":
    main()
