"""Starts Python processes of ours quickly: from one that has everything imported already.

To import a queue manager costs a second of processor, so one process per test worker, the nursery,
does it once, and each start is a fork of it. ``Popen`` and ``run`` here take the place of those of
``subprocess`` for ``[sys.executable, "-m", MODULE, ...]``, for a script and for ``-c TEXT``.

The child is as a fresh interpreter would be: arguments, environment, folder, umask, limits,
standard streams, signals, process group or session, exit code, what ``atexit`` does. Five things
differ, and a test to which one of them matters starts a process with ``subprocess``:

* what one of our modules does when it is imported has happened: a program that changes a module
  so that another one imports the changed name changes nothing here;
* the nursery gives the seed of hashes;
* modules are not taken down at the end, which would take longer than most commands: what is alive
  then is not deleted (``__del__``);
* ``/proc/PID/cmdline`` names the nursery, which is also its parent;
* the interpreter has read its own variables (``PYTHONIOENCODING``, ``LANG``): ``Popen`` refuses
  others than those of the nursery, as it refuses options of the interpreter such as ``-O``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[1]
READ_ONCE: Final = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_")
"""How names of variables begin that are read when a process starts, by Python or the C library."""
REQUEST_BYTES_MAX: Final = 1 << 20
IMPORTED: Final = (
    "onceq.service.main", "onceq.cli.main", "proof.sim.process.process",
)  # fmt: skip
WITH_ALL_BELOW: Final = ("onceq.cli", "onceq.client", "onceq.console")
"""Packages that load their modules when they are called."""
LIMITS: Final = sorted(
    {value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}
)


def _read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_ONCE) and name != "PYTHONPATH"
    }


# ---- in the test worker ------------------------------------------------------------------------


class _Nursery:
    """The connection to a nursery of this process. Threads may share it."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES_MAX)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                cwd=ROOT, env={**self.environment, "PYTHONPATH": ""},
            )  # fmt: skip
        self._lock = threading.Lock()

    def ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> Any:
        """Send a request with these descriptors; the answer.

        Raises:
            OSError: The nursery has ended, or refuses the request.
        """
        with self._lock:
            socket.send_fds(self._ours, [json.dumps(request).encode()], files)
            answer = json.loads(self._ours.recv(REQUEST_BYTES_MAX) or b'{"error": [32, ""]}')
        if "error" in answer:
            raise OSError(*answer["error"])
        return answer["number"]

    def close(self) -> None:
        """End the nursery. Its children go on."""
        self._ours.close()
        self._process.wait()

    def leave(self) -> None:
        """In a child of the test worker: the nursery belongs to its parent."""
        self._ours.close()
        self._process.returncode = 0


_nursery: _Nursery | None = None
_starting = threading.Lock()


def _own() -> _Nursery:
    global _nursery
    with _starting:
        if _nursery is None:
            _nursery = _Nursery()
            atexit.register(_close)
        return _nursery


def _close() -> None:
    global _nursery
    if _nursery is not None:
        _nursery.close()
    _nursery = None


def _leave() -> None:
    global _nursery, _starting
    _starting = threading.Lock()
    if _nursery is not None:
        _nursery.leave()
    _nursery = None


class _Child(subprocess.Popen[AnyStr]):
    """``subprocess.Popen`` of a program in Python, by a fork of the nursery.

    Raises:
        ValueError: The nursery cannot start it so; the text names what.
    """

    _ends = -1
    """A descriptor that can be read when the child has ended."""

    def _execute_child(self, *given: Any) -> None:
        signature = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
        call = signature.bind(self, *given).arguments
        own = _own()
        environment = dict(os.environ if call["env"] is None else call["env"])
        arguments = [os.fspath(one) for one in call["args"]]
        _refuse(arguments, environment, own.environment, call)
        limits = {number: resource.getrlimit(number) for number in LIMITS}
        request = {
            "arguments": arguments, "environment": environment, "limits": list(limits.items()),
            "folder": os.fspath(call["cwd"] or os.getcwd()), "umask": _umask(),
            "session": call["start_new_session"], "group": call["process_group"],
        }  # fmt: skip
        theirs = [call[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [number if file < 0 else file for number, file in enumerate(theirs)]
        try:
            self.pid = own.ask(request, files)
            self._ends = os.pidfd_open(self.pid)
            self._child_created = True
            self._nursery = own
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(call[name] for name in pipes))  # type: ignore[attr-defined]

    def _ended(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self._ends, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None and self._child_created and self._ended(0):
                try:
                    status = self._nursery.ask({"ended": self.pid})
                except OSError:
                    # Of another process, or the nursery has ended: nobody knows how it ended.
                    self.returncode = 0 if _deadstate is None else _deadstate
                else:
                    self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._ends)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        while (code := self._internal_poll()) is None:
            if not self._ended(timeout) and timeout is not None:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return code


def _umask() -> int:
    """Read where no other thread can see it changed."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)


def _refuse(
    arguments: list[str], environment: Mapping[str, str], own: Mapping[str, str],
    call: Mapping[str, Any],
) -> None:  # fmt: skip
    if arguments[0] != sys.executable:
        raise ValueError(f"{arguments[0]} is not {sys.executable}")
    if arguments[1].startswith("-") and arguments[1] not in ("-m", "-c"):
        raise ValueError(f"{arguments[1]} is an option of the interpreter")
    for path in filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)):
        if not Path(path).is_relative_to(ROOT):
            raise ValueError(f"PYTHONPATH leads to {path}, which is not in {ROOT}")
    if _read_once(environment) != _read_once(own):
        raise ValueError("it has other variables of the interpreter than the nursery")
    for name in ("executable", "preexec_fn", "pass_fds", "shell", "gid", "gids", "uid"):
        if call[name]:
            raise ValueError(f"{name} is given")


def _run(
    arguments: Sequence[str], *, input: AnyStr | None = None, capture_output: bool = False,
    timeout: float | None = None, check: bool = False, **more: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """``subprocess.run`` of a program in Python, by a fork of the nursery.

    Raises:
        ValueError: As for ``Popen``.
        subprocess.TimeoutExpired: It ran for ``timeout`` seconds, and was killed.
        subprocess.CalledProcessError: With ``check``: it did not end with 0.
    """
    if input is not None:
        more["stdin"] = subprocess.PIPE
    if capture_output:
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with _Child[Any](arguments, **more) as process:
        try:
            said, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(arguments, process.returncode, said, errors)
    if check:
        done.check_returncode()
    return done


if TYPE_CHECKING:
    # They have the interface of subprocess, with its forms for text and for bytes.
    from subprocess import Popen as Popen
    from subprocess import run as run
else:
    Popen, run = _Child, _run


# ---- in the nursery ----------------------------------------------------------------------------


def _import() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for name in WITH_ALL_BELOW:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(found.name)


def _serve(worker: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answer the test worker; None at its end, and in each child what it has to be."""
    while True:
        data, files, _, _ = socket.recv_fds(worker, REQUEST_BYTES_MAX, 3)
        if not data:
            return None
        request = json.loads(data)
        if "ended" in request:
            worker.send(json.dumps({"number": os.waitpid(request["ended"], 0)[1]}).encode())
            continue
        try:
            os.close(os.open(request["folder"], os.O_PATH | os.O_DIRECTORY))
            child = os.fork()
        except OSError as error:
            worker.send(json.dumps({"error": [error.errno, str(error)]}).encode())
        else:
            if not child:
                return request, files
            worker.send(json.dumps({"number": child}).encode())
        for file in files:
            os.close(file)


def _become(request: dict[str, Any], files: list[int]) -> None:
    """In a child: be a process that has just been started so."""
    if request["session"]:
        os.setsid()
    elif request["group"] >= 0:
        os.setpgid(0, request["group"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for limit, (soft, hard) in request["limits"]:
        if resource.getrlimit(limit) != (soft, hard):
            resource.setrlimit(limit, (soft, hard))
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        made = _opened(number, mode, getattr(sys, name))
        setattr(sys, name, made)
        setattr(sys, f"__{name}__", made)


def _opened(number: int, mode: str, before: Any) -> Any:
    """A standard stream as the interpreter opens it."""
    unbuffered = before.write_through
    buffering = 0 if unbuffered and mode == "w" else -1
    binary = open(number, f"{mode}b", buffering, closefd=False)  # noqa: SIM115 - until its end
    made: Any = io.TextIOWrapper(
        binary, before.encoding, before.errors, newline="\n",
        line_buffering=not unbuffered and (number == 2 or binary.isatty()),
        write_through=unbuffered,
    )  # fmt: skip
    made.mode = mode
    return made


def _perform(arguments: list[str], environment: Mapping[str, str], rest: list[str]) -> None:
    """Carry out the program, as ``python ARGUMENTS`` does."""
    sys.orig_argv = arguments
    how, what = arguments[1], arguments[2:]
    path = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    path += [part for part in rest if part not in path]
    if how == "-m":
        sys.argv = what
        sys.path[:] = [os.getcwd(), *path]
        # Imported as a module it is another one, as with a fresh interpreter.
        sys.modules.pop(what[0], None)
        runpy.run_module(what[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv = ["-c", *what[1:]]
        sys.path[:] = ["", *path]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = arguments[1:]
        sys.path[:] = [str(Path(how).resolve().parent), *path]
        runpy.run_path(how, run_name="__main__")


def _live(request: dict[str, Any], files: list[int], rest: list[str]) -> NoReturn:
    """In a child: carry out a request, and end the process as the interpreter would."""
    code, interrupted = 0, False
    try:
        _become(request, files)
        _perform(request["arguments"], request["environment"], rest)
    except SystemExit as error:
        if isinstance(error.code, int | None):
            code = error.code or 0
        else:
            print(error.code, file=sys.stderr)
            code = 1
    except BaseException as error:  # noqa: BLE001 - nothing is above it
        sys.excepthook(type(error), error, error.__traceback__)
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    sys.stderr.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rest = sys.path[1:]
    sys.path[:1] = [str(ROOT / "src"), str(ROOT)]
    importlib.import_module("tests.closed_port").close_port()
    worker = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(worker.fileno(), False)
    _import()
    gc.collect()
    gc.freeze()
    born = _serve(worker)
    worker.detach()
    if born is not None:
        _live(*born, rest)


if __name__ == "__main__":
    _main()
else:
    os.register_at_fork(after_in_child=_leave)
