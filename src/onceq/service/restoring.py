"""What a restore does with a store before it takes its place: the manager in it records it.

The manager is started on the staged store without a network, told of the restore, and stopped in
order, with a checkpoint. So the record is made by the same code as any other, and there is no
moment in which a store that was put back could be started and not know it.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from onceq.core.inputs.backup import PutBack
from onceq.errors import OnceqError
from onceq.model.data_directory import CONFIGURATION_FILE
from onceq.model.identity import GUID_BYTES, guid_text
from onceq.model.manager_identity import Identity
from onceq.service.clock import Clock, SystemClock
from onceq.service.config import Configuration
from onceq.service.directory import check_name, manager_of
from onceq.service.engine import Engine
from onceq.store.backup import read_file, read_manifest, verify_files, verify_store, write_file
from onceq.store.files import RealFiles
from onceq.store.identification import read_identification
from onceq.store.log import LogStore
from onceq.store.restoring import Target, check_target


class _Nowhere:
    """A network on which nothing is ever reached."""

    def connect(self, outgoing: int, protocol: str, host: str, peer: bytes) -> None:
        """See Network."""


def record(
    store: LogStore,
    clock: Clock,
    *,
    taken_s: int,
    position: int,
    previous: bytes = b"",
    random: Callable[[int], bytes] = os.urandom,
) -> int:
    """Let the manager of a staged store know that it was put back; the store is closed afterwards.

    Args:
        taken_s, position: Of the backup.
        previous: GUID of the manager that it is of, if the store has another one now.
        random: Gives so many random bytes, which no other process is given.

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
        engine.pump()
        engine.stop()
    finally:
        store.abandon()
    for failure in (*failures, *answers):
        if isinstance(failure, OnceqError):
            raise failure
    (aside,) = answers
    assert isinstance(aside, int)
    return aside


class Restore:
    """A backup that is to be put back to a directory."""

    def __init__(self, backup: str, to: str, *, new_identity: bool = False, name: str = "") -> None:
        """Read its manifest.

        Raises:
            NotABackup, NewerFormat, DamagedRecord: It cannot be used.
            ConfigurationError: The name cannot be one.
        """
        self._files = RealFiles()
        self._backup = os.path.abspath(backup)
        self._to = os.path.abspath(to)
        self._manifest = read_manifest(self._files, self._backup)
        who = read_identification(self._files, self._backup)
        self._was = Identity.unpack(who.identity)
        self._clock = SystemClock()
        self._is = self._was
        if new_identity:
            now_s = self._clock.read().wall_s
            self._is = Identity(uuid.uuid4().bytes_le, check_name(name or self._was.name), now_s)

    def run(
        self, *, replace: bool, dry_run: bool, progress: Callable[[int, int], object] | None
    ) -> dict[str, Any]:
        """Do it; what was done, as ``onceq.RestoreReport`` has it. See there."""
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
        target = Target(files, self._to, self._backup)
        try:
            target.check(replace=replace)
            kept = files.exists(os.path.join(self._to, CONFIGURATION_FILE))
            without = (CONFIGURATION_FILE,) if kept else ()
            for size in target.stage(self._backup, manifest, without=without):
                more(size)
            # Before a manager is started on it: that would cut what it takes for a torn tail.
            verify_store(files, target.staging, manifest.position)
            # In the staged copy: there is no moment at which the store could be started without
            # that record.
            aside = self._record(target)
            restored = self._configure(target.staging)
            taken = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock.read().wall_s))
            replaced = target.install(f"replaced-{taken}-{uuid.uuid4().hex[:8]}")
        finally:
            target.close()
        configuration = "kept" if kept else "restored" if restored else "none"
        return self._report(set_aside=aside, replaced=replaced, configuration=configuration)

    def _record(self, target: Target) -> int:
        another = self._is is not self._was
        if another:
            target.rename(self._is.pack())
        store = LogStore.open(target.staging, self._files)
        return record(
            store, self._clock, taken_s=self._manifest.taken_s, position=self._manifest.position,
            previous=self._was.guid if another else b"",
        )  # fmt: skip

    def _configure(self, staging: str) -> bool:
        """Let the configuration that was restored say the new name; whether there is one."""
        path = os.path.join(staging, CONFIGURATION_FILE)
        if not self._files.exists(path):
            return False
        if self._is.name != self._was.name:
            head, table, rest = read_file(self._files, path).decode().partition("\n[")
            named = re.sub(r"(?m)^name\s*=.*$", f"name = {json.dumps(self._is.name)}", head)
            write_file(self._files, staging, CONFIGURATION_FILE, (named + table + rest).encode())
        return True

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
            "files": len(manifest.files),
            "bytes": manifest.bytes,
            **more,
        }
