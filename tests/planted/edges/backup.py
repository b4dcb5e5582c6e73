"""Mistakes in making backups and putting them back: half ones that count, and whole ones that
lie."""

from __future__ import annotations

import re

import pytest

from onceq.core.decision import Hold
from onceq.core.management import copies
from onceq.core.peers import lives
from onceq.core.state.setups import StorePutBack
from onceq.core.state.state import State
from onceq.file_access import STORE_FILE
from onceq.model.views.managers import StoreCut
from onceq.service import restoring as putting_back
from onceq.service.committer import Holding
from onceq.store import backup, identification, log
from onceq.store.files import RealFiles
from onceq.store.log import LogStore
from onceq.tls import signing
from tests.planted.planted import Planted, edited

BACKUP = "tests/unit/store/test_backup.py::"
POWER = "tests/crash/test_backup.py::"
HOLDING = "tests/unit/service/test_committer_holding.py::"
BACK = "tests/conformance/test_put_back.py::"
CORE = "tests/unit/core/management/test_copies_restore.py::"
WRITERS = "tests/unit/service/test_restoring.py::"
SIGNING = "tests/unit/tls/test_signing.py::"


def nothing_is_held(patch: pytest.MonkeyPatch) -> None:
    """Segments are given back and used again while a backup copies them."""
    before = LogStore.hold

    def hold(self: LogStore) -> StoreCut:
        cut = before(self)
        self._held = None
        return cut

    patch.setattr(LogStore, "hold", hold)


def copied_up_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """The last segment is copied as it is when its turn comes."""
    before = backup.Part.__init__

    def init(self: backup.Part, name: str, bytes: int, size: int) -> None:
        before(self, name, size, size)

    patch.setattr(backup.Part, "__init__", init)


def not_read_back(patch: pytest.MonkeyPatch) -> None:
    """What was written is believed."""
    patch.setattr(backup, "verify_files", lambda *args: None)


def not_walked(patch: pytest.MonkeyPatch) -> None:
    """A damaged store makes a backup that is whole by its checksums."""
    patch.setattr(backup, "verify_store", lambda *args: None)


def begun_without_a_mark(patch: pytest.MonkeyPatch) -> None:
    """A backup that was interrupted looks like a data directory."""
    patch.setattr(backup, "UNFINISHED", "unknown-to-anybody")


def a_backup_can_be_started(patch: pytest.MonkeyPatch) -> None:
    """A queue manager may run in a backup, and change it."""
    patch.setattr(log, "refuse_backup", lambda *args: None)


def store_moves_first(patch: pytest.MonkeyPatch) -> None:
    """The file that makes a directory a store moves up before the rest of the store."""
    before = backup.RestoreTarget._move

    def move(self: backup.RestoreTarget, names: list[str], here: str, there: str) -> None:
        if here == self.staging and STORE_FILE not in names:
            before(self, [STORE_FILE], here, there)
        elif here == self.staging:
            return
        before(self, names, here, there)

    patch.setattr(backup.RestoreTarget, "_move", move)


def held_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A backup of which nothing is heard any more keeps the log for ever."""
    patch.setattr(Holding, "check_hold", lambda self, now, low: None)


def a_lost_hold_ends_well(patch: pytest.MonkeyPatch) -> None:
    """Whoever ends a hold that was let go before is told that all is well."""
    before = Holding._go_on

    def go_on(self: Holding, action: Hold) -> None:
        if self._until_us:
            before(self, action)

    patch.setattr(Holding, "_go_on", go_on)


def what_came_is_still_certain(patch: pytest.MonkeyPatch) -> None:
    """After a restore senders are told that what the undone life had accepted never came."""
    before = State._put_back

    def restored(self: State, setup: StorePutBack) -> None:
        vague = {key: p.vague for key, p in self.progress.items()}
        before(self, setup)
        for key, value in vague.items():
            self.progress[key].vague = value

    patch.setattr(State, "_put_back", restored)


def nobody_is_named(patch: pytest.MonkeyPatch) -> None:
    """The operator is not told who knows of what a restore has undone."""
    patch.setattr(lives, "note", lambda step, guid, what: None)


def a_manifest_names_anything(patch: pytest.MonkeyPatch) -> None:
    """Whatever a backup names is staged, if it is one file name."""
    patch.setattr(identification, "_MAY_HAVE", re.compile(r"[^/\0]+"))


def any_directory_was_aside(patch: pytest.MonkeyPatch) -> None:
    """What a mark names is moved into the target, wherever it lies."""
    patch.setattr(backup, "_REPLACED", re.compile(r".*"))


def links_are_followed(patch: pytest.MonkeyPatch) -> None:
    """A backup leads to files elsewhere, and to pipes that nobody writes to."""
    before = RealFiles.open

    def open(self: RealFiles, path: str, *, create: bool = False, reading: bool = False,
             plain: bool = False) -> int:  # fmt: skip
        return before(self, path, create=create, reading=reading)

    patch.setattr(RealFiles, "open", open)


def every_authority_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Who has signed for the key of a backup is not asked."""
    patch.setattr(signing, "_believe", lambda chain, made_s, authorities: None)


PLANTED = (
    Planted("backup-names-anything", a_manifest_names_anything,
            BACKUP + "test_a_manifest_names_files_of_a_store_alone"),
    Planted("restore-moves-any-directory", any_directory_was_aside,
            POWER + "test_a_mark_leads_to_no_directory_that_no_restore_has_made"),
    Planted("backup-links-are-followed", links_are_followed,
            WRITERS + "test_each_file_becomes_something_else"),
    Planted("backup-of-every-authority", every_authority_is_believed,
            SIGNING + "test_another_authority_is_not_believed"),
    Planted("backup-of-another-member",
            edited(signing, "    if _named(chain[0]) != urn:\n",
                   "    if not _named(chain[0]):\n"),
            SIGNING + "test_another_member_does_not_sign_for_it"),
    Planted("backup-signature-of-something-else",
            edited(signing, "_DOMAIN + data, *_scheme(key))\n    except",
                   "_DOMAIN + data, *_scheme(key)) if raw == b'' else None\n    except"),
            SIGNING + "test_changed_data_was_not_signed"),
    Planted("backup-unsigned-is-taken",
            edited(putting_back, "        if not signed.signature:\n",
                   "        if not signed.signature:\n            return ''\n"
                   "        if not signed.signature:\n"),
            WRITERS + "test_a_backup_of_another_queue_manager_is_not_this_one"),
    Planted("undone-nobody-is-named", nobody_is_named,
            BACK + "test_a_receiver_that_was_put_back_names_who_sent_what_is_gone"),
    Planted("backup-holds-nothing", nothing_is_held,
            BACKUP + "test_what_was_held_goes_when_it_is_let_go"),
    Planted("backup-copies-beyond-its-position", copied_up_to_the_end,
            BACKUP + "test_records_that_are_not_in_the_cut_are_not_in_the_backup"),
    Planted("backup-is-not-read-back", not_read_back,
            BACKUP + "test_what_was_written_is_read_back"),
    Planted("backup-is-not-walked", not_walked,
            BACKUP + "test_a_damaged_store_makes_no_backup_and_the_place_is_named"),
    Planted("backup-begun-without-a-mark", begun_without_a_mark,
            POWER + "test_a_power_cut_while_a_backup_is_made_leaves_the_store_and_no_half_backup"),
    Planted("backup-can-be-started", a_backup_can_be_started,
            BACKUP + "test_nobody_starts_in_a_backup"),
    Planted("restore-moves-store-first", store_moves_first,
            POWER + "test_a_power_cut_while_one_is_put_back_leaves_the_old_the_new_or_nothing"),
    Planted("hold-for-ever", held_for_ever,
            HOLDING + "test_what_nobody_speaks_of_is_let_go_in_time"),
    Planted("hold-lost-ends-well", a_lost_hold_ends_well,
            HOLDING + "test_a_disk_that_gets_full_is_freed"),
    Planted("restored-copy-sends-too",
            edited(copies, "    for outgoing in step.state.outgoing.values():\n",
                   "    for outgoing in ():\n"),
            CORE + "test_under_another_identity_nothing_that_waited_is_sent"),
    Planted("restored-and-still-certain", what_came_is_still_certain,
            CORE + "test_what_had_arrived_is_not_certain_any_more"),
)  # fmt: skip
