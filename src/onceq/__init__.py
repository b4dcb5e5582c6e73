"""onceq: transactional message queuing. A committed message arrives once, in order, or its sender
is told why not.

    with onceq.open("./alpha", create=True) as qm:
        qm.create_queue(r"private$\\orders", transactional=True)
        with qm.transaction() as tx:
            tx.send(r"private$\\orders", b"order 17")
"""

from importlib import import_module
from typing import TYPE_CHECKING

from onceq.version import __version__ as __version__

if TYPE_CHECKING:
    from onceq.public import *  # noqa: F403
    from onceq.public import __all__ as __all__
else:  # a type checker shall refuse a name that is not there

    def __getattr__(name: str) -> object:
        """A public name, when it is first asked for.

        Every module of the package imports the package itself, those of the daemon too, which has
        no use for the client library: loading that took a twelfth of the time of its start.
        """
        if name == "errors":  # which every module takes from here, and few need all else
            return import_module("onceq.errors")
        public = import_module("onceq.public")
        if name == "__all__" or name in public.__all__:
            return getattr(public, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    public = import_module("onceq.public")
    return [*public.__all__, "__version__"]
