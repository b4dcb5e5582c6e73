"""Restore a store: its manager records the restore before the store takes its place.

The manager is started on the staged store without a network, gets the record of the restore, and is
stopped in order, with a checkpoint. So the record is made by the same code as any other, and a
restored store can never be started without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onceq import errors
from onceq.core.inputs import PutBack
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.identity import GUID_BYTES, Identity, guid_bytes, guid_text
from onceq.service.clock import Clock, SystemClock
from onceq.service.config import Configuration
from onceq.service.engine import Engine
from onceq.store.backup import RestoreTarget, check_target, verify_files, verify_store, write_file
from onceq.store.files import RealFiles
from onceq.store.identification import SignedManifest, read_file, read_identification, read_signed
from onceq.store.log import LogStore
from onceq.tls import folder
from onceq.tls.signing import Believed, believed_in, verify

if TYPE_CHECKING:
    pass
from onceq.service.data_directory import check_name, manager_of


class _Nowhere:
    """A network on which nothing is ever reached."""

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Connect to nothing."""


def record(
    store: LogStore,
    clock: Clock,
    *,
    taken_s: int,
    position: int,
    previous: bytes = b"",
    random: Callable[[int], bytes] = os.urandom,
) -> int:
    """Record in a staged store that it was restored; the store is closed afterwards.

    Args:
        taken_s, position: Of the backup.
        previous: GUID of its original manager, if the store has another one now.
        random: Returns the given number of random bytes, which no other process gets.

    Returns:
        How many messages were set aside.

    Raises:
        StorageFailure: The disk failed, or the store is damaged.
    """
    configuration = Configuration()
    failures: list[BaseException] = []
    answers: list[object] = []
    engine = Engine(
        manager=manager_of(store, configuration), store=store, clock=clock, network=_Nowhere(),
        settings=configuration.settings, wake=lambda: None, fatal=failures.append, entropy=random,
    )  # fmt: skip
    try:
        engine.start()
        owner = engine.owner(lambda request, result: answers.append(result))
        queues = engine.manager.state.queues.values()
        public = [q for q in queues if not q.system and not q.properties.private]
        instances = tuple(random(GUID_BYTES) for _ in public) if previous else ()
        engine.submit(PutBack(owner, 1, taken_s, position, previous, instances))
        # Before anything that the manager would do by itself: acknowledgments that are owed, say.
        engine.pump(portion=False)
        engine.stop()
    finally:
        store.abandon()
    for failure in (*failures, *answers):
        if isinstance(failure, errors.OnceqError):
            raise failure
    (aside,) = answers
    assert isinstance(aside, int)
    return aside


class Restore:
    """A backup that is to be restored to a directory."""

    def __init__(
        self, backup: str, to: str, *, new_identity: bool = False, name: str = "",
        trust: str = "", unsigned: bool = False,
    ) -> None:  # fmt: skip
        """Read its manifest, and check its signature.

        Raises:
            NotABackup, NewerFormat, DamagedRecord: It cannot be used.
            UntrustedBackup: It has no signature of a trusted signer.
            ConfigurationError: The name cannot be one.
        """
        self._files = RealFiles()
        self._backup = os.path.abspath(backup)
        self._to = os.path.abspath(to)
        signed = read_signed(self._files, self._backup)
        self._manifest = signed.manifest
        self._signed_by = "" if unsigned else self._judge(signed, trust)
        self._was = self._identity_in(self._backup)
        self._clock = SystemClock()
        self._is = self._was
        if new_identity:
            now_s = self._clock.read().wall_s
            self._is = Identity(uuid.uuid4().bytes_le, check_name(name or self._was.name), now_s)

    def _judge(self, signed: SignedManifest, trust: str) -> str:
        """Return the signer, as the SHA-256 of a certificate; raises UntrustedBackup."""
        if trust:
            certificates = folder.read(trust)
            believed = Believed(certificates, certificates)
        else:
            believed = believed_in(self._to)
        ways = "--trust FILE names certificates to believe, --unsigned believes any writer"
        if not signed.signature:
            raise errors.UntrustedBackup(
                f"{self._backup} is not signed: everybody who could write there may have made or "
                f"changed it ({ways})"
            )
        if not (believed.known or believed.authorities):
            raise errors.UntrustedBackup(
                f"{self._backup} is signed, and {self._to} has no identity that could tell by whom "
                f"({ways})"
            )
        manifest = signed.manifest
        try:
            guid = guid_bytes(manifest.id)
            return verify(signed.signature, signed.raw, guid, manifest.taken_s, believed)
        except (errors.AccessDenied, ValueError) as error:
            why = getattr(error, "text", "") or f"{manifest.id!r} is no queue manager"
            raise errors.UntrustedBackup(f"{self._backup}: {why} ({ways})") from None

    def _identity_in(self, path: str) -> Identity:
        """Return the identity in the store, which must be the one in the manifest."""
        found = None
        with contextlib.suppress(ValueError, errors.NotAStore):
            who = read_identification(self._files, path, plain=True)
            found = Identity.unpack(who.identity)
        if found is None or guid_text(found.guid) != self._manifest.id:
            raise errors.DamagedRecord(
                f"the store in {path} is not of queue manager {self._manifest.id}, as the manifest "
                "says; use another backup"
            )
        return found

    def run(
        self, *, replace: bool, dry_run: bool, progress: Callable[[int, int], object] | None
    ) -> dict[str, Any]:
        """Restore; return the values of ``onceq.RestoreReport``."""
        manifest, files = self._manifest, self._files
        done = 0

        def more(size: int) -> None:
            nonlocal done
            done += size
            if progress is not None:
                progress(done, manifest.bytes)

        if dry_run:
            check_target(files, self._to, self._backup, replace=replace)
            verify_files(files, self._backup, manifest, more)
            return self._report(dry_run=True)
        target = RestoreTarget(files, self._to, self._backup)
        try:
            target.check(replace=replace)
            kept = files.exists(os.path.join(self._to, CONFIGURATION_FILE))
            without = (CONFIGURATION_FILE,) if kept else ()
            for size in target.stage(self._backup, manifest, without=without):
                more(size)
            # Before a manager is started on it: that would cut what it takes for a torn tail.
            verify_store(files, target.staging, manifest.position)
            if self._identity_in(target.staging) != self._was:
                raise errors.DamagedRecord(
                    f"{self._backup} was changed meanwhile; use another backup"
                )
            # In the staged copy: the store can never be started without that record.
            aside = self._record(target)
            path = os.path.join(target.staging, CONFIGURATION_FILE)
            restored = files.exists(path)
            if restored and self._is.name != self._was.name:
                head, table, rest = read_file(files, path).decode().partition("\n[")
                named = re.sub(r"(?m)^name\s*=.*$", f"name = {json.dumps(self._is.name)}", head)
                text = (named + table + rest).encode()
                write_file(files, target.staging, CONFIGURATION_FILE, text)
            taken = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock.read().wall_s))
            replaced = target.install(f"replaced-{taken}-{uuid.uuid4().hex[:8]}")
        finally:
            target.close()
        configuration = "kept" if kept else "restored" if restored else "none"
        return self._report(set_aside=aside, replaced=replaced, configuration=configuration)

    def _record(self, target: RestoreTarget) -> int:
        another = self._is is not self._was
        if another:
            target.rename(self._is.pack())
        store = LogStore.open(target.staging, self._files)
        return record(
            store, self._clock, taken_s=self._manifest.taken_s, position=self._manifest.position,
            previous=self._was.guid if another else b"",
        )  # fmt: skip

    def _report(self, **more: Any) -> dict[str, Any]:
        manifest = self._manifest
        return {
            "path": self._to,
            "queue_manager": self._is.name,
            "id": guid_text(self._is.guid),
            "previous": guid_text(self._was.guid) if self._is is not self._was else "",
            "position": manifest.position,
            "taken_at": manifest.taken_s,
            "made_by": manifest.made_by,
            "signed_by": self._signed_by,
            "files": len(manifest.files),
            "bytes": manifest.bytes,
            **more,
        }
