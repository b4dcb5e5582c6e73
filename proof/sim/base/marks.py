"""Marks: rare situations that every batch of simulated worlds must have been in.

A simulator that never reaches the hard cases proves nothing, so a batch of 300 seeds in which one
of these was never seen fails. Marks are seen from outside: in packets, views, answers and on the
disk; the core knows nothing of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

GAP = "gap rejected"
REACKED = "duplicate re-acknowledged"
STALE = "stale stream rejected"
RELINKED = "relinked after expiry"
IN_DOUBT = "expired in doubt"
FOUND_DONE = "commit in doubt, found done"
FOUND_NOT_DONE = "commit in doubt, found not done"
FENCED = "late commit refused after its outcome was told"
FORGOTTEN = "forgotten transaction undone, its commit refused"
TORN = "torn tail cut"
FILE_MISSING = "unsynced file missing"
REFUSED = "final negative acknowledgment"
GIVEN_BACK = "receive given back"
HELD = "held of a queue that is not transactional"
CLOCK_BACK = "wall clock went back across a restart"
LEFT_STREAM = "acknowledgment for a left stream ignored"
CHECKPOINT_CUT = "checkpoint interrupted"
RESERVE = "reserve reached"
QUOTA = "quota refusal"
DOOMED = "commit refused after a refused send"
RECOVERY_CUT = "crash during recovery"
SYNC_FAILED = "sync failed"
ACKED = "positive acknowledgment message"
NACKED = "negative acknowledgment message"
DUE = "acknowledgment message that was due, and came"
JOURNALED = "copy in the journal of a queue"
OWN_LETTER = "dead letter in the sender's own queue"
LETTER_QUEUE_GONE = "dead letter in the system's queue instead of the sender's own"
REJECTED = "rejected by a receiver"
MOVED = "moved between a queue and its subqueues"
POISONED = "moved aside because it was given back too often"
OWN_HEADERS = "sent with labels of their own"
LISTED = "sent to a distribution list"
PUBLIC = "public queue made"
LETTERS = "sent to a name in other letters than others write it"
OFFLINE = "refused without the directory"
PROMISE_KEPT = "prepared branch decided in another life of its manager"
RECOVERED_COMMIT = "branch committed by recovery"
RECOVERED_ROLLBACK = "branch rolled back by recovery"
DECISION_KEPT = "decision carried out in another life of its manager"
DECISION_GONE = "decision forgotten by recovery"
LEFT_ALONE = "branch left alone by recovery: its application is at work"
DIED_PREPARED = "application died with promises and no decision"
DIED_DECIDED = "application died with a decision that partners were not told"
DATABASE_CRASHED = "database crashed while it had prepared"
VOTE_LOST = "answer to prepare lost"
SHARED_DONE = "shared commit in doubt, found done"
SHARED_NOT_DONE = "shared commit in doubt, found not done"
ROW_FOUND = "branch committed by recovery, because its row was there"
ROW_DONE_AGAIN = "commit by a row lost in a crash, and made again by recovery"
ROW_FENCED = "branch rolled back by recovery, and its row kept out"
ROW_LATE = "commit that came after its row was kept out, and failed"
ROW_HELD = "recovery met a commit that was under way"
ROW_FOLLOWED = "promise of another database kept by recovery, because a row had decided"
ROWS_REMOVED = "rows that decided removed in bulk"
DATABASE_SET_BACK = "database that was set back recognised"
GROUP_FOUND_DONE = "group asked for again, found committed"
GROUP_KEPT = "group committed in another life of its manager"
GROUP_TWICE = "group written twice, sent once"
SETTLED = "doubt settled by the receiver"
ROTTEN = "stored byte altered by itself"
ROTTEN_BEHIND = "stored byte altered behind the checkpoint"
ROTTEN_LARGE = "stored byte altered in a large record"
SET_ASIDE = "damaged message set aside"
LIE_IGNORED = "lie about an acknowledgment ignored"
STRANGER_REFUSED = "message under another identity refused"
FUTURE_REFUSED = "stream of the future refused"
HOT_BACKUP = "hot backup made, and proved by a restore elsewhere"
BACKUP_OVER = "hot backup that was not held to its end"
RESTORED = "put back to an earlier moment"
RESTORED_HOT = "put back from a hot backup"
RELOADED = "settings read again while the manager runs"
UNDONE_KNOWN = "manager named that knows of what a restore has undone"
TURNS = "copy of a directory started in the place of another"
ROLLED_BACK = "copy started that its directory does not tell of"
UNTOLD = "acknowledged, and in doubt because nobody will tell its end"
CLASH = "two copies of one identity noticed"
BESIDE = "copy of a directory started beside the original"
CLONED = "copy beside the original that nothing tells of"
SHARED_WAITS = "copy started with messages that wait in the original, too"
COPY_ENDED = "one of two copies taken off the network for good"
MET_BOTH = "manager that has met both copies, and noticed it"
BOTH_IN_DOUBT = "what one of two copies has delivered is in doubt at the other, which knows of it"
TOLD_BOTH = "both copies told of each other"
COPIED_QUEUES = "copy started with queues that others send to"
TOOK_EACH = "messages of one stream accepted by both copies, each its own"
TOOK_BOTH = "message transmitted to both copies, and received from both"
STOOD_BOTH = "message that stood in a queue when it was copied, received from both"
FROM_COPY = "message received from a copy, that the original has never had"
DOUBT_BETWEEN = "in doubt at its sender, and accepted by one of two copies"
OWN_IDENTITY = "copies that met each other, and exchanged nothing"
REPLAYED = "recovery compared with all records since the beginning"
STILL_KEPT = "transmitted, not acknowledged, and still kept when its sender ended"
PASSED = "transmitted, and passed over for a reason"
PLAIN_LETTER = "dead letter of a message outside transactions"
TIMED = "message with a time to reach its queue handed out"
REPEATED = "message outside transactions accepted twice"
WORK_CUT = "purge or deletion of several steps interrupted"
IN_TWO_PARTS = "body of several destinations written once"
CHUNKS = "queue in several tables of positions"
MANY_CHUNKS = "queue in many tables of positions"
IDS_FULL = "as many identifiers remembered as may be"
STREAMS_FULL = "as many left streams remembered as may be"
DOUBTS_FULL = "as many doubts remembered as may be"
ANSWERS_GONE = "acknowledgments for a stranger given up by an operator"
PASSED_FULL = "as many ranges passed over remembered as may be"
EARLY_SHOWN = "came too early, and accepted when what was missing had come"
EARLY_FULL = "came too early, and no room to keep it"
EARLY_LEFT = "came too early, and its stream was left"
EARLY_DELETED = "came too early, and its queue was deleted"
EARLY_CLOSED = "came too early, and its session was closed"
READ_BEFORE = "reader kept out: one of its name has read before"
OLD_CHECKPOINT = "reader with an old checkpoint kept out"
READ_ELSEWHERE = "reader remembered in another life of its manager"
READ_FOUND_DONE = "removal in doubt, found done by what is remembered"
READ_FOUND_NOT_DONE = "removal in doubt, found not done by what is remembered"
READ_TWICE = "removed again, and nothing was there"
READ_KEPT = "copy in a journal because a reader wants it"
READERS_FULL = "as many readers remembered as may be"
HOLD_LAPSED = "hold ended because it was not renewed, and somebody wanted the queue"
HOLD_REFUSED = "hold refused, because another reader has the queue"
HOLD_REPLACED = "reader that was replaced kept from removing"
HOLD_SLOW = "reader that was slow, and not replaced, goes on"
SEND_DENIED = "send refused for want of a right"
RECEIVE_DENIED = "receive refused for want of a right"
PEEK_DENIED = "look at bodies refused for want of a right"
COMMIT_DENIED = "commit undone, because a right was taken away before it"
DENIED_MEANWHILE = "refused, because a right was taken away while it waited"
ARRIVAL_DENIED = "message of another manager refused for want of a right"
RIGHT_KEPT = "right used in another life of its manager"
RIGHT_SHARED = "right of the directory used"
SHARED_OLDER = "older copy of the rights in the directory put in their place"
TOKEN_USED = "token used in another life of its manager"
TOKEN_REFUSED = "token refused when it was shown"
TOKEN_REVOKED = "connection ended, because its token was revoked"
TOKEN_EXPIRED = "connection ended, because its token has expired"
TOKEN_AGAIN = "token made under the name of one that was revoked"
TOKEN_CUT_WAIT = "receive ended in the middle of its wait, because its token was over"
TOKEN_CUT_COMMIT = "transaction undone, because its token was over before the commit"
TRAIL_WHOLE = "trail with acts compared with its digests in another life of its manager"
TRAIL_HELD = "the same, with what another manager holds of it"
LIAR_CLAIMED = "member that says another one's GUID, believed in nothing"
LIAR_NAMED = "member that answers for another one, given nothing"
LIAR_REMOVED = "member that was removed, turned away"
PLAIN_CLAIMED = "plain host that says a member's GUID, believed in nothing"
PLAIN_NAMED = "plain host that answers for a member, given nothing"
LIED_SOURCE = "messages under another one's GUID, from a member"
LIED_RIGHT = "messages of a member without a right"
LIED_REPORT = "acknowledgment message of a member that was sent nothing"
LIED_ORDER = "order acknowledgment of a member for what others were sent"
LIED_ORDER_AS = "the same, under another one's GUID"
LIED_AHEAD = "the same, of a number far ahead"
LIED_END = "final acknowledgment of a member for what others were sent"
LIED_SETTLED = "answer of a member about doubts that are others'"
LIED_HEARSAY = "a second process, told of by a member that has nothing of this one"

PAUSE_TOLD = "receive that got nothing, because an operator has paused the queue"
PAUSE_KEPT = "queue that is paused in another life of its manager"
PAUSE_FOUND = "pause whose answer was lost, found by a look"
PAUSE_WAITED = "receive that waited over the end of a pause, and went on"
PAUSE_GATHERED = "message that came to a paused queue, and was received later"
PAUSE_NAMED = "message of a paused queue received by its place"
JOB_ENDED = "job that was done"
JOB_KEPT = "job that went on in another life of its manager"
JOB_FOUND_DONE = "batch of a job in doubt, found done"
JOB_FOUND_NOT_DONE = "batch of a job in doubt, found not done"
JOB_CANCELLED = "job cancelled between two batches"
JOB_RETURNED = "dead letter returned by a job, and received"
JOB_MOVED = "message moved to another queue by a job"
JOB_GONE = "message of a job that somebody else took before its turn"
JOB_FAILED = "message that a job could not do"
CONSUMER_HOLDS = "who holds messages of a queue, told of"
CONSUMER_WAITS = "who waits at a queue, told of"
CONSUMER_PROMISED = "prepared branch that holds messages of a queue, told of"
CONSUMER_KEPT = "the same, in another life of its manager"
DELAYED = "delayed message received when its time had come"
DELAYED_AFAR = "the same, from another queue manager"
WHOLE = "transaction of several messages received whole"
WHOLE_DELAYED = "the same, with a delayed message"
WHOLE_MOVED = "transaction all of which is there, although a message of it was moved or tried again"
WHOLE_GONE = "whole transaction of which somebody has taken a part meanwhile, or that is kept"
KIND_OPEN = "message sent outside a transaction, because its queue takes no other"

REQUIRED: Final = (
    GAP, REACKED, STALE, RELINKED, IN_DOUBT, FOUND_DONE, FOUND_NOT_DONE, FENCED, FORGOTTEN, TORN,
    FILE_MISSING, REFUSED, GIVEN_BACK, CLOCK_BACK, LEFT_STREAM, CHECKPOINT_CUT, RESERVE, QUOTA,
    HELD, DOOMED, RECOVERY_CUT, SYNC_FAILED, SETTLED, ACKED, NACKED, DUE,
    JOURNALED, OWN_HEADERS, OWN_LETTER, LETTER_QUEUE_GONE, REJECTED, MOVED, POISONED, LISTED,
    PUBLIC, LETTERS,
    OFFLINE, PROMISE_KEPT,
    RECOVERED_COMMIT, RECOVERED_ROLLBACK, DECISION_KEPT, DECISION_GONE, LEFT_ALONE, DIED_PREPARED,
    DIED_DECIDED, DATABASE_CRASHED, VOTE_LOST, SHARED_DONE, SHARED_NOT_DONE,
    ROW_FOUND, ROW_FENCED, ROWS_REMOVED,
    GROUP_FOUND_DONE, GROUP_KEPT, GROUP_TWICE, REPLAYED, ROTTEN, ROTTEN_BEHIND, ROTTEN_LARGE,
    SET_ASIDE,
    TIMED, PLAIN_LETTER, STILL_KEPT, PASSED,
    IN_TWO_PARTS, CHUNKS, MANY_CHUNKS, IDS_FULL, STREAMS_FULL, DOUBTS_FULL, PASSED_FULL,
    EARLY_SHOWN, EARLY_FULL, EARLY_LEFT, EARLY_DELETED, EARLY_CLOSED,
    LIE_IGNORED, STRANGER_REFUSED, FUTURE_REFUSED,
    READ_TWICE, READ_KEPT, HOLD_LAPSED, HOLD_REFUSED, HOLD_REPLACED, HOLD_SLOW,
    SEND_DENIED, RECEIVE_DENIED, PEEK_DENIED, RIGHT_KEPT,
    PAUSE_TOLD, PAUSE_KEPT, PAUSE_GATHERED, PAUSE_NAMED, JOB_ENDED, JOB_KEPT, JOB_MOVED,
    CONSUMER_HOLDS, CONSUMER_WAITS,
    HOT_BACKUP, RESTORED, RESTORED_HOT, UNDONE_KNOWN, UNTOLD, TURNS, ROLLED_BACK, RELOADED,
)  # fmt: skip
"""Each of them in nearly every batch of BATCH seeds: the rarest come in one world of seventy."""

OF_NAMES: Final = (PUBLIC, LETTERS, LISTED, SETTLED, PASSED, IN_DOUBT)
"""Required of a batch where each world with a directory has public queues (``apps/places.py``)."""

OF_LIVES: Final = (
    HOT_BACKUP, RESTORED, RESTORED_HOT, UNDONE_KNOWN, UNTOLD, TURNS, ROLLED_BACK, CLASH, RELOADED,
)  # fmt: skip
"""Required of a batch in which every world has lives (``faults/lives.py``)."""

OF_BESIDE: Final = (
    BESIDE, CLONED, SHARED_WAITS, COPY_ENDED, MET_BOTH, TOLD_BOTH, CLASH, STALE, SETTLED, IN_DOUBT,
    COPIED_QUEUES, TOOK_EACH, TOOK_BOTH, STOOD_BOTH, FROM_COPY, DOUBT_BETWEEN, OWN_IDENTITY,
)  # fmt: skip
"""Required of a batch in which every world has two copies side by side (``faults/beside.py``)."""

OF_ROWS: Final = (
    ROW_FOUND, ROW_DONE_AGAIN, ROW_FENCED, ROW_LATE, ROW_HELD, ROW_FOLLOWED, ROWS_REMOVED,
    DATABASE_SET_BACK,
)  # fmt: skip
"""Required of a batch in which every world has last agents (``apps/last_agents.py``)."""

OF_READERS: Final = (
    READ_BEFORE, OLD_CHECKPOINT, READ_ELSEWHERE, READ_FOUND_DONE, READ_FOUND_NOT_DONE, READ_TWICE,
    READ_KEPT, READERS_FULL, HOLD_LAPSED, HOLD_REFUSED, HOLD_REPLACED, HOLD_SLOW,
)  # fmt: skip
"""Required of a batch in which every world has readers (``apps/readers.py``)."""

OF_RIGHTS: Final = (
    SEND_DENIED, RECEIVE_DENIED, PEEK_DENIED, COMMIT_DENIED, DENIED_MEANWHILE, ARRIVAL_DENIED,
    RIGHT_KEPT, RIGHT_SHARED, SHARED_OLDER, TRAIL_WHOLE, TRAIL_HELD,
)  # fmt: skip
"""Required of a batch in which every world has applications that are somebody
(``apps/subjects.py``)."""

OF_TOKENS: Final = (
    TOKEN_USED, TOKEN_REFUSED, TOKEN_REVOKED, TOKEN_EXPIRED, TOKEN_AGAIN, TOKEN_CUT_WAIT,
    TOKEN_CUT_COMMIT,
)  # fmt: skip
"""Required of the same batch: in a part of its worlds applications show tokens
(``apps/holders.py``)."""

OF_LYING: Final = (
    LIAR_CLAIMED, LIAR_NAMED, LIAR_REMOVED, PLAIN_CLAIMED, PLAIN_NAMED, LIED_SOURCE, LIED_RIGHT,
    LIED_REPORT, LIED_ORDER, LIED_ORDER_AS, LIED_AHEAD, LIED_END, LIED_SETTLED, LIED_HEARSAY,
)  # fmt: skip
"""Required of the same batch: in a part of its worlds members lie (``faults/lying_members.py``)."""

OF_PAUSES: Final = (
    PAUSE_TOLD, PAUSE_KEPT, PAUSE_FOUND, PAUSE_WAITED, PAUSE_GATHERED, PAUSE_NAMED,
)  # fmt: skip
"""Required of a batch in which every world has pauses (``apps/pausing.py``)."""

OF_JOBS: Final = (
    JOB_ENDED, JOB_KEPT, JOB_FOUND_DONE, JOB_FOUND_NOT_DONE, JOB_CANCELLED, JOB_RETURNED, JOB_MOVED,
    JOB_GONE, JOB_FAILED,
)  # fmt: skip
"""Required of a batch in which every world has jobs (``apps/jobs.py``)."""

OF_CONSUMERS: Final = (CONSUMER_HOLDS, CONSUMER_WAITS, CONSUMER_PROMISED, CONSUMER_KEPT)
"""Required of a batch in which every world has operators who ask who works on a queue
(``apps/onlookers.py``)."""

OF_DELAYS: Final = (DELAYED, DELAYED_AFAR)
"""Required of a batch in which every world has delayed messages (``apps/delaying.py``)."""

OF_WHOLES: Final = (WHOLE, WHOLE_MOVED, WHOLE_GONE, KIND_OPEN)
"""Required of a batch in which every world has whole receives (``apps/wholes.py``)."""

BATCH: Final = 300

Marks = Counter[str]
"""How often each mark was reached."""


def missing(marks: Marks, required: tuple[str, ...] = REQUIRED) -> list[str]:
    """Required marks that were never reached."""
    return [mark for mark in required if not marks[mark]]
