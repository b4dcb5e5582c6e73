"""``python -m onceq``: the command ``onceq``, where its script is not on the path."""

from onceq.cli.main import main

if __name__ == "__main__":
    main()
