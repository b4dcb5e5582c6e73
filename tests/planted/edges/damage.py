"""Mistakes in noticing damage and in living with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onceq.core.management import damage
from onceq.errors import DamagedPiece, DamagedRecord
from onceq.history import projector
from onceq.model.log import BLOCK_BYTES, LARGE_BLOCK_BYTES, LARGE_RECORD_BYTES, blocks_of
from onceq.service import answers
from onceq.service.answers import Verifying
from onceq.service.engine import Engine
from onceq.service.upkeep import Scrubbing, Upkeep
from onceq.store import framing, promises, recovery, scan, verified
from onceq.store.checkpoints import CheckpointHead
from onceq.store.framing import Frame, Framing, crc32
from onceq.store.log import LogStore
from onceq.store.promises import PromisedFile, StorePromise
from onceq.store.scan import Segment
from onceq.store.verified import VerifiedLog
from tests.planted.planted import SIM, Planted, edited

DAMAGE = "tests/unit/service/test_damage.py::"
LOST = "tests/crash/test_lost_files.py::"
LOG = "tests/unit/store/test_log.py::"
VERIFIED = "tests/unit/store/test_verified.py::"


def reads_not_verified(patch: pytest.MonkeyPatch) -> None:
    """Bytes of the log are handed out as they are found."""

    def read(self: VerifiedLog, segment: Segment, address: int, size: int) -> bytes:
        return self._files.read(segment.file, segment.offset(address), size)

    patch.setattr(VerifiedLog, "read", read)


def damage_costs_the_record(patch: pytest.MonkeyPatch) -> None:
    """One bad block is said to be the whole record."""
    patch.setattr(verified, "_block", framing.block_place)
    patch.setattr(verified, "block_place", lambda frame, at, head=0: verified._payload(frame))


def unwritten_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    """What the store does not hold yet is looked for in it, and missed."""

    def damaged(self: Verifying, pieces: Any) -> tuple[DamagedPiece, ...]:
        found: list[DamagedPiece] = []
        for piece in pieces:
            try:
                self._store.read(piece.address, piece.size)
            except DamagedRecord:
                found.append(DamagedPiece(piece.address, piece.size, "", 0))
        return tuple(found)

    patch.setattr(Verifying, "damaged", damaged)


def small_blocks_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Who reads a part of a large record takes its blocks for small ones."""
    patch.setattr(
        verified, "_block_of", lambda frame, address: (address - frame.payload) // BLOCK_BYTES
    )


def format_three_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A large record of an older version is read as if it had the blocks of today."""
    head = Framing.head

    def today(self: Framing, data: Any, at: int, *, position: int) -> Frame | None:
        found = head(self, data, at, position=position)
        if found is None or not found.packets or found.size < LARGE_RECORD_BYTES:
            return found
        return replace(found, block_bytes=LARGE_BLOCK_BYTES, blocks=blocks_of(found.size, 1))

    patch.setattr(Framing, "head", today)


def torn_is_damage(patch: pytest.MonkeyPatch) -> None:
    """A record whose packets are bad is damaged, whether anybody was promised it or not."""
    walk = scan._walk_all

    def all_promised(*arguments: Any) -> list[Frame]:
        walk(*arguments)
        return []

    patch.setattr(scan, "_walk_all", all_promised)


def heads_not_covered(patch: pytest.MonkeyPatch) -> None:
    """What a record says happened has no checksum."""
    encode, sealed = Framing.encode, Framing._sealed

    def uncovered(self: Framing, payload: bytes, *, head: int = 0, **where: int) -> list[bytes]:
        frame = encode(self, payload, head=head, **where)
        if head:
            table = frame[-1][-len(payload) % 8 :]
            crc = crc32(table, crc32(frame[0][4:], self._seed))
            frame[0] = crc.to_bytes(4, "little") + frame[0][4:]
        return frame

    def unsealed(self: Framing, view: Any, at: int, frame: Frame, head: int = 0) -> bool:
        if not frame.packets:
            return sealed(self, view, at, frame, head)
        table = view[at + frame.table - frame.position : at + frame.end - frame.position]
        crc = crc32(table, crc32(view[at + 4 : at + 32], self._seed))
        return crc == int.from_bytes(view[at : at + 4], "little")

    patch.setattr(Framing, "encode", uncovered)
    patch.setattr(Framing, "_sealed", unsealed)


def packets_cost_the_record(patch: pytest.MonkeyPatch) -> None:
    """A record of which anything is bad is bad, wherever it stands."""
    sound = Framing.sound

    def whole(self: Framing, data: Any, at: int, *, position: int) -> framing.Sound | None:
        found = sound(self, data, at, position=position)
        return None if found is None or found.wrong else found

    patch.setattr(Framing, "sound", whole)


def found_and_not_told(patch: pytest.MonkeyPatch) -> None:
    """Damage that a start finds waits until somebody reads it."""
    patch.setattr(Engine, "set_aside", lambda self, pieces: None)


def history_of_damage(patch: pytest.MonkeyPatch) -> None:
    """The history tells what damaged packets seem to say."""
    patch.setattr(projector, "brought", lambda put, address, damaged, read: put.packets)


def ahead_not_verified(patch: pytest.MonkeyPatch) -> None:
    """What is read ahead is kept as it is found."""

    def read_ahead(self: VerifiedLog, segment: Segment, frame: Frame, blocks: range) -> bytes:
        start, (last, size) = (
            verified._block(frame, blocks.start)[0],
            verified._block(frame, min(blocks.stop, frame.blocks) - 1),
        )
        return self._files.read(segment.file, segment.offset(start), last + size - start)

    patch.setattr(VerifiedLog, "_read_ahead", read_ahead)


def headers_are_believed(patch: pytest.MonkeyPatch) -> None:
    """A damaged size leads over the records behind it."""
    patch.setattr(VerifiedLog, "_lies", lambda self, segment, frame: False)


def heads_are_believed(patch: pytest.MonkeyPatch) -> None:
    """What the head of a checkpoint lists must be there, let go meanwhile or not."""

    def read_kept(*args: Any) -> tuple[tuple[int, int], ...]:
        head: CheckpointHead = args[-1]
        return (*real(*args), *head.segments)

    real = promises.read_kept
    patch.setattr(promises, "read_kept", read_kept)


def promise_not_read(patch: pytest.MonkeyPatch) -> None:
    """A start believes that the log is all there is."""
    patch.setattr(promises, "read_promised", lambda files, path, store_id: StorePromise())


def first_sync_not_promised(patch: pytest.MonkeyPatch) -> None:
    """That a segment was begun is noted, that something stands in it is not."""

    def note(self: PromisedFile, position: int, **more: Any) -> None:
        if more.get("segment") or more.get("covered"):
            real(self, position, **more)

    real = PromisedFile.note
    patch.setattr(PromisedFile, "note", note)
    patch.setattr(LogStore, "note", lambda self: None)


def kept_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    """Old segments may be missing."""
    patch.setattr(promises, "read_kept", lambda *arguments: ())


def check_sees_less(patch: pytest.MonkeyPatch) -> None:
    """The check does not ask what a start asks."""

    def survey(files: Any, path: str, who: Any, loaded: Any) -> Any:
        return real(files, path, who if not asking else type(who)(who.store_id, version=1), loaded)

    real = recovery.survey
    asking = [True]
    judge = recovery.judge

    def judging(*arguments: Any) -> Any:
        asking.clear()
        try:
            return judge(*arguments)
        finally:
            asking.append(True)

    patch.setattr(recovery, "survey", survey)
    patch.setattr(recovery, "judge", judging)


def damaged_stays(patch: pytest.MonkeyPatch) -> None:
    """What is damaged is left out of the answer, and nothing is recorded of it."""
    patch.setattr(damage, "_aside", lambda *arguments: None)


def never_left_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A transmission that is damaged is performed all the same."""

    def look(self: Verifying, decisions: Any) -> list[Any]:
        from onceq.core.decision import Transmit

        kept = [d for d in decisions if not any(isinstance(a, Transmit) for a in d.actions)]
        return real(self, kept)

    real = Verifying.read_handed
    patch.setattr(Verifying, "read_handed", look)


def scrub_tells_nobody(patch: pytest.MonkeyPatch) -> None:
    """A scrub counts what it finds, and sets nothing aside."""

    def looked(self: Scrubbing, found: Any, now: Any) -> None:
        found.damaged = []
        real(self, found, now)

    real = Scrubbing._looked
    patch.setattr(Scrubbing, "_looked", looked)


def reserve_of_large_disks(patch: pytest.MonkeyPatch) -> None:
    """Sends are taken again when twice the reserve is free, however small the disk is."""

    def reserves(self: Upkeep) -> tuple[int, int]:
        wanted = self._committer.settings.disk_reserve_bytes
        return wanted, 2 * wanted

    patch.setattr(Upkeep, "_reserves", reserves)


PLANTED = (
    Planted("altered-bytes-received", reads_not_verified, SIM, first=20),
    Planted("reads-not-verified", reads_not_verified, DAMAGE + "test_a_peek_finds_damage_too"),
    Planted(
        "damage-costs-the-record", damage_costs_the_record,
        VERIFIED + "test_an_altered_byte_costs_one_block_of_a_large_record",
    ),
    Planted(
        "small-blocks-everywhere", small_blocks_everywhere,
        VERIFIED + "test_an_altered_byte_costs_one_block_of_the_large_ones",
    ),
    Planted(
        "format-three-forgotten", format_three_forgotten,
        VERIFIED + "test_a_store_of_format_three_goes_on",
    ),
    Planted(
        "torn-is-damage", torn_is_damage, LOG + "test_a_torn_tail_with_packets_is_cut"
    ),
    Planted(
        "heads-not-covered", heads_not_covered,
        "tests/unit/store/test_framing.py::"
        "test_damaged_packets_do_not_cost_the_record_and_anything_else_does",
    ),
    Planted(
        "packets-cost-the-record", packets_cost_the_record,
        DAMAGE + "test_what_a_start_finds_is_named",
    ),
    Planted("found-and-not-told", found_and_not_told, DAMAGE + "test_what_a_start_finds_is_named"),
    Planted(
        "history-of-damage", history_of_damage,
        "tests/history/test_function_of_the_log.py::test_damaged_packets_are_told_by_their_size",
    ),
    Planted(
        "heads-are-believed", heads_are_believed,
        LOST + "test_what_was_let_go_while_a_checkpoint_was_written_is_not_missed",
    ),
    Planted(
        "ahead-not-verified", ahead_not_verified,
        VERIFIED + "test_an_altered_byte_costs_one_block_of_a_large_record",
    ),
    Planted(
        "headers-are-believed", headers_are_believed,
        VERIFIED + "test_a_header_that_reaches_too_far_costs_its_own_record_only",
    ),
    Planted(
        "promise-not-read", promise_not_read, LOST + "test_zeros_in_place_of_a_log_are_noticed"
    ),
    Planted(
        "first-sync-not-promised", first_sync_not_promised,
        LOST + "test_zeros_in_place_of_a_log_are_noticed",
    ),
    Planted(
        "kept-not-asked-for", kept_not_asked_for,
        LOST + "test_an_old_segment_that_messages_need_is_missed",
    ),
    Planted(
        "check-sees-less", check_sees_less,
        LOST + "test_zeros_in_place_of_a_log_are_refused_by_the_check",
    ),
    Planted("damaged-stays", damaged_stays, DAMAGE + "test_a_peek_finds_damage_too"),
    Planted(
        "damage-transmitted", never_left_forgotten,
        "tests/conformance/test_damage.py::"
        "test_an_outgoing_queue_does_not_stand_behind_a_damaged_message",
    ),
    Planted(
        "unwritten-taken-for-lost", unwritten_taken_for_lost,
        DAMAGE + "test_what_this_pump_stores_itself_is_not_taken_for_lost",
    ),
    Planted(
        "scrub-tells-nobody", scrub_tells_nobody,
        DAMAGE + "test_a_scrub_finds_what_nobody_reads",
    ),
    Planted(
        "reserve-of-large-disks", reserve_of_large_disks,
        "tests/unit/service/test_upkeep.py::"
        "test_a_small_disk_takes_messages_again_when_all_was_received",
    ),
    Planted(
        "what-is-remembered-is-whole",
        edited(answers, "            if self._try(handed.pieces):\n",
               "            if self._try(handed.pieces) or True:\n"),
        DAMAGE + "test_what_was_whole_by_what_is_remembered_is_looked_at_again",
    ),
    Planted(
        "what-nobody-has-seen-is-committed",
        edited(damage, "    if tx is not None and tx.doomed is None:\n", "    if False:\n"),
        DAMAGE + "test_a_transaction_whose_messages_could_not_be_handed_out_ends_undone",
    ),
)  # fmt: skip
