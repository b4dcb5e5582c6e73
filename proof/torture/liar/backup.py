"""Somebody who can write where backups lie: such changes are not put back, and harm nobody.

The backup is of ALPHA, made while it runs. It would be put back in a directory of its own, beside
the one of a neighbour, of which not a byte may change. Where ALPHA has an identity the backup is
signed; where it has none, a restore does not ask who has made it (``--unsigned``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import onceq
from onceq.embedded import data_directory
from onceq.errors import OnceqError
from onceq.store import identification
from onceq.store.identification import MANIFEST, SIGNATURE
from onceq.tls import folder
from onceq.tls.signing import Signer
from proof.torture.liar.rogue import Believed, Lie, Rogue, believed

REFUSED: Final = ("untrusted-backup", "damaged-record", "newer-format", "not-a-backup")
"""Codes of the errors with which a restore may refuse."""


class BackupWriter(Rogue):
    """The writer of the module."""

    kind: ClassVar[str] = "writer of backups"
    pause_s: ClassVar[float] = 0.2

    def prepare(self) -> None:
        """A backup that is good, a neighbour, and where the backup would be put back."""
        self._root = self.honest.folder / "backups"
        self._root.mkdir()
        self._good, self._backup = self._root / "good", self._root / "backup"
        self._neighbour, self._target = self._root / "neighbour", self._root / "target"
        data_directory.init(str(self._neighbour), name="NEIGHBOUR")
        with self.honest.admin("ALPHA") as alpha:
            signed = alpha.admin.backup(str(self._good), configuration=False).signed_by
        believed(bool(signed) is not self.honest.tls, "a backup is signed where there is a key")
        with self.honest.admin("BETA") as beta:
            beta.admin.backup(str(self._root / "of-beta"), configuration=False)
        self._before = _read_files(self._neighbour)
        self._fresh()
        code = self._restore(command=True)
        if code:
            raise Believed(f"a backup that nobody has changed is not put back: {code}")
        shutil.rmtree(self._target)

    def lies(self) -> Mapping[str, Lie]:
        """See Rogue."""
        table: dict[str, Callable[[], object]] = {
            "a mark `aside`": lambda: self._with_file("aside", self._neighbour),
            "a mark beside the staged folder": lambda: self._with_file(
                "restoring.aside", self._neighbour
            ),
            "a name that leads elsewhere": lambda: self._with_file("../neighbour/STORE", "lie"),
            "an absolute name": lambda: self._with_file(self._neighbour / "STORE", "lie"),
            "a link to the neighbour": self._linked,
            "a byte changed": self._damaged,
            "a byte changed, and the manifest": self._resealed,
            "another queue manager in the manifest": lambda: self._set_entry(
                "id", self._guid("BETA")
            ),
            "no manifest": (lambda: (self._backup / MANIFEST).unlink()),
            "the files of another backup": self._mixed,
        }
        if self.honest.tls:
            table |= {
                "another time in the manifest": lambda: self._set_entry("taken_s", 1),
                "the signature removed": (lambda: (self._backup / SIGNATURE).unlink()),
                "the signature of another member": self._signed_by_another,
                "the signature of another backup": lambda: shutil.copy(
                    self._root / "of-beta" / SIGNATURE, self._backup / SIGNATURE
                ),
                "another member's backup, as ALPHA's": self._of_another,
            }
        return {name: self._refused(change) for name, change in table.items()}

    def judge(self) -> None:
        """The neighbour is as it was."""
        believed(_read_files(self._neighbour) != self._before, "the neighbour has lost something")

    # ---- one try --------------------------------------------------------------------------------

    def _refused(self, change: Callable[[], object]) -> Lie:
        def lie() -> bool:
            self._fresh()
            change()
            code = self._restore()
            believed(not code, "it was put back")
            believed(code not in REFUSED, f"it was refused with {code}")
            believed(os.path.exists(self._target / "STORE"), "half of it was put back")
            believed(
                _read_files(self._neighbour) != self._before, "the neighbour has lost something"
            )
            return True

        return lie

    def _fresh(self) -> None:
        for one in (self._backup, self._target):
            shutil.rmtree(one, ignore_errors=True)
        shutil.copytree(self._good, self._backup)

    def _restore(self, *, command: bool = False) -> str:
        """The code of the error; "": it was put back.

        Args:
            command: By ``onceq qm restore``, which takes a second to start.
        """
        own = self.honest.nodes["ALPHA"].path / folder.FOLDER / folder.AUTHORITY
        if command:
            how = ["--trust", str(own)] if self.honest.tls else ["--unsigned"]
            done = subprocess.run(
                [sys.executable, "-m", "onceq", "qm", "restore", str(self._backup),
                 "--to", str(self._target), *how],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return done.stderr[-300:] if done.returncode else ""
        try:
            onceq.restore(
                str(self._backup), str(self._target), trust=str(own) if self.honest.tls else "",
                unsigned=not self.honest.tls,
            )  # fmt: skip
        except OnceqError as error:
            return error.code
        return ""

    def _guid(self, name: str) -> str:
        with self.honest.admin(name) as qm:
            return qm.id

    # ---- what is changed ------------------------------------------------------------------------

    def _manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._backup / MANIFEST).read_bytes())
        return found

    def _reseal(self, values: dict[str, Any]) -> None:
        """Write a manifest whose checksum is right."""
        kept = {key: value for key, value in values.items() if key != "checksum"}
        kept["checksum"] = identification._checksum(kept)
        (self._backup / MANIFEST).write_text(json.dumps(kept))

    def _set_entry(self, key: str, value: object) -> None:
        self._reseal({**self._manifest(), key: value})

    def _with_file(self, name: str | Path, content: object) -> None:
        """A file more; and a bad one at the end, so that the restore cleans up."""
        data, called = str(content).encode(), str(name)
        if "/" not in called:
            (self._backup / called).write_bytes(data)
        entry = {"name": called, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        values = self._manifest()
        self._reseal({**values, "files": [entry, *values["files"]]})
        self._damaged()

    def _last(self) -> Path:
        return self._backup / str(self._manifest()["files"][-1]["name"])

    def _damaged(self) -> None:
        raw = bytearray(self._last().read_bytes())
        raw[-1] ^= 1
        self._last().write_bytes(raw)

    def _resealed(self) -> None:
        """Digests are right again; what the log says for itself is not, or the signature."""
        values = self._manifest()
        for entry in values["files"]:
            file = self._backup / entry["name"]
            raw = bytearray(file.read_bytes())
            raw[len(raw) // 2] ^= 0x55
            file.write_bytes(raw)
            entry["sha256"] = hashlib.sha256(raw).hexdigest()
        self._reseal(values)

    def _linked(self) -> None:
        last = self._last()
        last.unlink()
        last.symlink_to(self._neighbour / "STORE")

    def _mixed(self) -> None:
        for file in (self._root / "of-beta").iterdir():
            if file.name not in (MANIFEST, SIGNATURE):
                shutil.copy(file, self._backup / file.name)

    def _of_another(self) -> None:
        shutil.rmtree(self._backup)
        shutil.copytree(self._root / "of-beta", self._backup)
        self._set_entry("id", self._guid("ALPHA"))

    def _signed_by_another(self) -> None:
        """With the key of BETA, whose certificate is of the same authority."""
        files = folder.files_of(str(self.honest.nodes["BETA"].path))
        assert files is not None, "it has an identity"
        made = Signer(files).sign((self._backup / MANIFEST).read_bytes())
        (self._backup / SIGNATURE).write_bytes(made)


def _read_files(path: Path) -> dict[str, bytes]:
    """Read every file of a directory, without its lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "LOCK"
    }
