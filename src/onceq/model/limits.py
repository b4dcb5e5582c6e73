"""Every limit of onceq, with its unit in its name and what it bounds beside it.

Nothing remote can make memory, disk or time grow past what stands here. The table in
``docs/reference/limits.md`` is generated from this module. What an operator may set is in
``settings``.
"""

from __future__ import annotations

from typing import Final

PACKET_BYTES_MAX: Final = 0x0040_0000
"""A packet with all its headers: 4 MiB, of the protocol (MS-MQMQ 2.2.19.1)."""

LABEL_CHARS_MAX: Final = 249
"""Of the protocol: 250 with its terminator (MQ_MAX_MSG_LABEL_LEN)."""

QUEUE_NAME_CHARS_MAX: Final = 124
"""Of the protocol (MS-MQMQ 2.1.1)."""

QUEUE_LABEL_CHARS_MAX: Final = 124
"""PROPID_Q_LABEL."""

SUBQUEUE_NAME_CHARS_MAX: Final = 32
"""Of the protocol (MS-MQMQ 2.1.1)."""

COMPUTER_NAME_CHARS_MAX: Final = 256
"""Of the protocol (MS-MQMQ 2.1.1)."""

FORMAT_NAME_CHARS_MAX: Final = 16_384
"""Some sixty long elements; bounds the time of parsing."""

FORMAT_NAME_ELEMENTS_MAX: Final = 256
"""Destinations of one send."""

ANSWER_QUEUES_MAX: Final = 32
"""Administration queues, and response queues, of one message."""

DIRECTORY_RETRY_S: Final = 5.0
"""A manager that has nothing else to do looks so often for a directory that it lost (seconds)."""

LIST_NAME_CHARS_MAX: Final = 64
"""Name of a distribution list."""

DIRECTORY_LISTS_MAX: Final = 10_000
"""Distribution lists of a directory."""

DIRECTORY_MEMBERS_MAX: Final = 4_096
"""Members of one distribution list."""

DIRECTORY_ENTRIES_MAX: Final = 200_000
"""Computers and public queues of a directory together."""

DIRECTORY_BYTES_MAX: Final = 64 << 20
"""A directory's file."""

DIRECTORY_LOOK_S: Final = 0.1
"""A busy manager looks at most so often whether the directory's file has changed (seconds): what
another has registered is known after this time. Commands about the directory look at once."""

DIRECTORY_DISPUTE_S_MAX: Final = 3_600.0
"""A manager whose entry in the directory somebody else changes again and again, as the copy of a
manager does, waits at most so long before it writes it again (seconds)."""

ACTOR_CHARS_MAX: Final = 128
"""Name of a holder of rights."""

PATTERN_CHARS_MAX: Final = 512
"""Pattern of queue names; each ``*`` of a name takes three characters."""

GRANTS_MAX: Final = 50_000
"""Grants of one queue manager, without those of owners."""

ALIKE_PATTERNS_MAX: Final = 256
"""Patterns with the same beginning before their first ``*``."""

SHARED_GRANTS_MAX: Final = 1_000
"""Grants of a directory."""

SHARED_RIGHTS_BYTES_MAX: Final = 4 << 20
"""The file of a directory's grants."""

SHARED_RIGHTS_NUMBER_MAX: Final = (1 << 53) - 1
"""Counted changes of a directory's grants: what every reader of JSON can hold."""

TRAIL_MAX: Final = 10_000
"""Acts of administration that are kept."""

LOG_LINES_MAX: Final = 10_000
"""Lines of a daemon's log that wait for their reader; more are counted."""

LOG_FLUSH_S_MAX: Final = 2.0
"""Seconds that the end of a daemon waits for its last lines to be written."""

FAILURE_CHARS_MAX: Final = 300
"""Text of why a receiver returned or rejected a message."""

TRAIL_CHARS_MAX: Final = 400
"""Text of what an act was about."""

TOKENS_MAX: Final = 10_000
"""Tokens of one queue manager."""

TOKEN_NAME_CHARS_MAX: Final = 64
"""Name of a token."""

TOKEN_AGE_S_MAX: Final = 100 * 366 * 86_400
"""Longest lifetime of a token."""

TOKEN_GRANTS_MAX: Final = 100
"""Grants created together with a token."""

TOKEN_LINES_MAX: Final = 1_000
"""Lines of a token file, which is read for each connection."""

TOKEN_LOOK_S: Final = 3_600.0
"""Connections whose tokens expire are looked at at least so often (seconds): the wall clock may
have been set. A request on one is looked at each time."""

WRONG_TOKENS_AT_ONCE: Final = 10
"""Wrong tokens of one address (at the Unix socket: account) checked in a row."""

WRONG_TOKENS_A_S: Final = 2.0
"""And from then on this many a second: strangers cannot make it hash more."""

TOKEN_ADDRESSES_MAX: Final = 4_096
"""Addresses whose wrong tokens are remembered; the oldest go first."""

TRACKING_AGE_S: Final = 7 * 86_400
"""Lifetime of acknowledgments of tracked messages."""

TRACKING_QUOTA_KB: Final = 256 << 10
"""Quota of these acknowledgments; above it a message's end stays unknown."""

REPLIES_AGE_S: Final = 86_400
"""Lifetime of replies that nobody waits for any more."""

REPLIES_TIDY_S: Final = 600
"""How often an application that sends requests removes such replies."""

REPLIES_QUOTA_KB: Final = 256 << 10
"""Quota of replies that were not fetched; above it replies are refused."""

SILENT_S: Final = 120
"""A silent computer or queue manager is lost after this time, at both ends of a connection."""

REQUEST_GRACE_S: Final = 5
"""How long after its requester gave up a request can be received."""

RETURN_MESSAGES_MAX: Final = 1_000
"""Dead letters that one command returns by default."""

DELAY_S_MAX: Final = 366 * 86_400
"""Longest delay of a message: a year."""

DELAY_LOOK_S: Final = 60
"""Delayed messages are checked at least this often."""

RETURNS_MAX: Final = 5
"""How often a message is returned by default."""

JOBS_RUNNING_MAX: Final = 16
"""Unfinished jobs of a queue manager."""

JOBS_KEPT_MAX: Final = 100
"""Finished jobs that are remembered; the oldest go first."""

JOB_QUEUES_MAX: Final = 64
"""Queues of one job."""

IDENTIFIERS_MAX: Final = 1_000
"""Messages that a filter of dead letters names."""

JOB_FAILURES_MAX: Final = 100
"""Failed messages of a job that are named; all are counted."""

JOB_REASONS_MAX: Final = 20
"""Different reasons why messages of a job stay; further ones are counted together."""

JOB_TEXT_CHARS_MAX: Final = 400
"""Error text that a job keeps, and each text of its filter."""

JOB_BATCH_MESSAGES: Final = 64
"""Messages that a job resends in one step of ten milliseconds."""

JOB_BATCH_BYTES: Final = 1 << 20
"""The same in bytes; at least one message is sent."""

JOB_TRANSACTION_MESSAGES: Final = 512
"""Messages among which a job looks for the rest of a transaction; a larger or more distant one is
split and counted."""

JOB_PURGE_MESSAGES: Final = 512
"""Messages that a job removes in one step without reading them."""

JOB_RETRY_S: Final = 2.0
"""A job that cannot go on (the disk is nearly full, an application has the queue for itself) tries
again after this time (seconds)."""

JOB_DIVERTED_MAX: Final = 20
"""Destinations of redirected letters that the log names."""

BACKUP_HOLD_S: Final = 60.0
"""A backup that is silent for this time (seconds) is over, and the log that it held is released: it
keeps space of the log in use, and its maker may be gone."""

HOPS_MAX: Final = 29
"""The hop count field's largest legal value (Q-44)."""

MESSAGE_NUMBER_MAX: Final = 0x7FFF_FFFF
"""Message numbers start again at 1 after it; the rest is for order acknowledgments."""

EXTENSION_BYTES_MAX: Final = 1 << 20
"""Extension of one message."""

RECORD_BYTES_MAX: Final = 1 << 30
"""One record of the log; TRANSACTION_BYTES_MAX refuses larger transactions before."""

TRANSACTION_BYTES_MAX: Final = 512 << 20
"""Packets of one transaction over all destinations."""

TRANSACTION_MESSAGES_MAX: Final = 2_000_000
"""Messages sent and received by one transaction."""

OPEN_SEND_BYTES_MAX: Final = 1 << 30
"""Bodies of all uncommitted transactions, in memory."""

STREAM_NUMBERS_MAX: Final = (1 << 32) - (1 << 24)
"""Unacknowledged numbers of a stream: sequence numbers have 32 bits, and open transactions
(OPEN_SEND_BYTES_MAX) still need some."""

CLIENT_FRAME_BYTES_MAX: Final = 64 << 20
"""One frame of the client protocol; the client library cuts larger batches."""

CLIENT_UNANSWERED_BYTES_MAX: Final = 64 << 20
"""Unanswered requests of one application; above it nothing more is read."""

CLIENT_UNANSWERED_MAX: Final = 4_096
"""Their number, without receives."""

CLIENT_RECEIVES_MAX: Final = 1_024
"""Receives and peeks in progress on one connection of an application."""

CLIENT_ANSWERS_BYTES_MAX: Final = 32 << 20
"""Packets of answers that one application has not read yet."""

ANSWERS_BYTES_MAX: Final = 256 << 20
"""The same over all applications; one gets at most an eighth of what is left, and then waits."""

ANSWERS_TURN_BYTES: Final = 64 << 20
"""Large answers that one turn builds, for all applications."""

CLIENT_STALLED_S_MAX: Final = 60
"""An application that has read no answer for this long is cut while others wait for the memory."""

CLIENT_PEEKS_MAX: Final = 64
"""Waiting peeks among these."""

RECEIVE_MESSAGES_MAX: Final = 10_000
"""Messages of one receive or peek request."""

RECEIVE_BYTES: Final = 8 << 20
"""Packets that the client library asks for in one request."""

RECEIVE_BYTES_MAX: Final = 32 << 20
"""Packets of one receive or peek answer; at least one message is given."""

SUBQUEUES_MAX: Final = 16_384
"""Subqueues of one queue manager."""
HANDLES_MAX: Final = 131_072
"""Open queues, each opening counted."""
CURSORS_MAX: Final = 65_536
"""Open cursors."""
WAITING_READERS_MAX: Final = 10_000
"""Waiting receive requests of one queue manager."""

OPEN_TRANSACTIONS_MAX: Final = 100_000
"""Open transactions of one queue manager."""

XML_DEPTH_MAX: Final = 32
"""Nested elements in XML from outside (SRMP, mapping files)."""
XML_ELEMENTS_MAX: Final = 2_000
"""Elements of one such document."""
XML_TEXT_BYTES_MAX: Final = 64 << 10
"""Text of one such document, without bodies of messages."""
MAPPING_FILE_BYTES_MAX: Final = 1 << 20
"""One mapping file."""
MAPPING_FILES_MAX: Final = 256
"""Mapping files of the folder."""
MAPPING_LOOK_S: Final = 1.0
"""A manager that uses HTTP looks at most so often whether a mapping file has changed (seconds)."""
HTTP_ENTITY_BYTES_MAX: Final = (4 << 20) + (512 << 10)
"""Entity of one HTTP request: the largest body, and an envelope."""
HTTP_URL_CHARS_MAX: Final = 2_048
"""An address in an envelope."""
HTTP_POSTS_MAX: Final = 32
"""Messages that wait on one HTTP connection."""
PASSED_ON_MAX: Final = 10_000
"""Messages over HTTP that wait to be passed on, and whose repetitions are recognized here."""
HTTP_RECEIPTS_MAX: Final = 64
"""Stream receipts that wait for one unreachable sender, which asks again."""

PREPARED_MAX: Final = 10_000
"""Prepared branches of external transactions."""
DECISIONS_MAX: Final = 100_000
"""Remembered decisions that partners have not carried out."""
GROUPS_MAX: Final = 10_000
"""Applications whose last version of a group is remembered."""
GROUP_AGE_S: Final = 90 * 86_400
"""Above GROUPS_MAX, one without a commit for 90 days makes room."""
GROUP_APP_CHARS_MAX: Final = 200
"""Name of such an application, and of its query."""
GROUP_NOTE_CHARS_MAX: Final = 100
"""Remembered destination and digest of such a group."""
READERS_MAX: Final = 64
"""Remembered readers of one queue; the one that has not read for the longest time makes room."""
READER_CHARS_MAX: Final = 1_000
"""Name of such a reader, and of its query."""
LEASE_MS_MAX: Final = 3_600_000
"""Longest hold of a queue: an hour."""
GTRID_BYTES_MAX: Final = 64
"""Global transaction identifier, as in XA."""
PARTNER_CHARS_MAX: Final = 200
"""Name of a partner."""
PARTNER_NAME_CHARS_MAX: Final = 60
"""Name of a database."""

QUEUES_MAX: Final = 100_000
"""Queues of one queue manager."""

OUTGOING_QUEUES_MAX: Final = 100_000
"""Outgoing queues of one queue manager."""

BOUND_NAMES_MAX: Final = 100_000
"""Names whose queue manager is remembered."""

OWNERS_MAX: Final = 4
"""Managers that answered for one outgoing queue in turn, and may still report on its messages."""

KNOWN_AFTER_S: Final = 86_400
"""A manager that only sends here stays a stranger for a day after its first message."""

STRANGERS_SHARE: Final = 2
"""Strangers get one part in this many of the computer's quota, and of incoming streams."""

UNASKED_SHARE: Final = 4
"""Foreign messages get one part in this many of the computer's quota in each dead-letter queue."""

STRANGER_QUEUES_MAX: Final = 1_000
"""Outgoing queues that only answer strangers."""

ANSWERS_EACH_BYTES: Final = 256 << 10
"""Waiting answers to one stranger: more than a thousand."""

ANSWER_CONNECTS_MAX: Final = 8
"""Simultaneous connection attempts to strangers."""

ANSWER_RETRY_S_MAX: Final = 600
"""Longest time between attempts to reach a stranger."""

STREAM_AHEAD_S_MAX: Final = 2 * 86_400
"""A stream that claims to begin later than this from now (two days) is refused."""

REFUSED_AHEAD_MAX: Final = 256
"""Remembered managers whose streams from the future were refused; the oldest go first."""

CLOCKS_AHEAD_MAX: Final = 1_024
"""Managers whose clock an operator has accepted."""

OUTGOING_NAMES_MAX: Final = 200_000
"""Further names of outgoing queues: two for each destination."""

UNDONE_MAX: Final = 1_024
"""Named queue managers that know of what a restore has undone."""

LIVES_MAX: Final = 1_000
"""Remembered own starts with their streams, to notice one of another process; the oldest go
first."""

LIVES_MET_MAX: Final = 10_000
"""Other managers whose last life is remembered."""

LIVES_OF_ONE_MET_MAX: Final = 4
"""Remembered lives of one other manager: two copies, and a restart of each."""

CLASHES_MAX: Final = 1_000
"""Remembered identities that two managers claim; the oldest go first."""

WRONG_NAMES_MAX: Final = 100
"""Computer names in the status that lead to another computer; the oldest go first."""

STREAMS_MAX: Final = 1_000_000
"""Incoming streams, one for each pair of sender and queue (I24)."""

DUPLICATE_IDS_MAX: Final = 10_000
"""Remembered identifiers of non-transactional messages, to notice repetitions (EOD-27)."""

REFUSALS_MAX: Final = 10_000
"""Remembered refusals, so that each is counted once."""

DRAINED_STREAMS_MAX: Final = 4_096
"""Remembered own streams without messages, so that a late refusal is counted; the oldest go
first."""

LATE_REFUSALS_KEPT: Final = 8
"""Shown identifiers of late refusals of one outgoing queue; all are counted."""

ACCEPTED_NUMBERS_MAX: Final = 1_024
"""Last accepted messages of a stream whose message numbers are remembered, to notice another
message under the same sequence number; over a restart the last one."""

ACCEPTED_STREAMS_MAX: Final = 2_048
"""Streams with such numbers (8 KB each); the longest unused go first."""

DUPLICATE_AGE_S_MAX: Final = 1_800
"""How long these identifiers are remembered."""

OUTCOME_AGE_S: Final = 24 * 3600
"""How long after its last commit the outcomes of a client session are remembered."""

OUTCOME_SESSIONS_MAX: Final = 100_000
"""Client sessions with remembered outcomes."""

OUTCOME_WINDOW: Final = 1_024
"""Commits of one session with remembered outcomes, and in progress."""

PEERS_REMEMBERED_MAX: Final = 10_000
"""Managers whose addresses and names are remembered; the oldest go first."""

FENCES_MAX: Final = 20_000
"""Client sessions with a commit that was reported as not done, and is barred."""

TIME_TO_REACH_QUEUE_DEFAULT_S: Final = 345_600
"""Four days, when the sender set none (CNF-19)."""

NOTICE_EVERY_S: Final = 3_600
"""A quota that is reached repeatedly is logged once in this time (PIT-11)."""

DOUBTS_MAX: Final = 50_000
"""Dead letters in doubt that a manager asks about; others stay in doubt (CNF-22)."""

ENDS_ASKED_S: Final = 14_400
"""How often a sender asks which ends it will be told."""

DOUBT_AGE_S: Final = 345_600
"""How long a message in doubt without a dead letter is kept."""

ACKS_DEFERRED_MAX: Final = 65_536
"""Messages whose acknowledgments wait for the directory, half of them for known senders; above it
acknowledgments are dropped, with a notice."""

ACKS_DEFERRED_S: Final = 345_600
"""How long such acknowledgments wait."""

LEFT_AHEAD: Final = 1 << 16
"""Messages of an outgoing queue that one durable mark allows to leave: up to this many may count as
transmitted after a crash although they were not."""

REST_BYTES_MIN: Final = 512
"""Packets with at least this many bytes from their properties on are written once for all
destinations of a send; smaller ones are faster to read in one part."""

SPARSE_POSITIONS_MAX: Final = 200_000
"""Positions checked in a second, or for each 8 MiB of log, for messages that hold an old part of
the log."""

LEFT_STREAMS_MAX: Final = 10_000
"""Streams that a receiver has left and can still be asked about; the oldest go first."""

PASSED_RANGES_MAX: Final = 64
"""Remembered ranges of skipped numbers of one stream."""

INQUIRY_STREAMS_MAX: Final = 16
"""Streams in one packet that asks or answers about doubts."""

NOTES_MAX: Final = 256
"""Such packets that wait on one session."""

EARLY_SESSION_BYTES_MAX: Final = 16 << 20
"""Transactional messages of one session that are kept until a missing one comes; above it they are
dropped, and come again."""

EARLY_BYTES_MAX: Final = 64 << 20
"""The same over all sessions."""

EARLY_RUN_BYTES: Final = 1_024
"""What a run of such messages counts besides its packets."""

HOLE_AGAIN_S: Final = 0.1
"""What a receiver names as missing is sent again at most so often (seconds), and twice as long
after each time that did not help: a round trip fits in, and a liar gets little."""

HOLE_MESSAGES: Final = 16
"""Messages of a hole that are sent again at first."""

HOLE_GROWTH: Final = 2
"""Then this many times as many, and so on, if the receiver accepts them."""

HOLES_WAITING_MAX: Final = 64
"""Holes of one outgoing queue that wait for room on its session."""

ASKED_MESSAGES: Final = 2
"""Messages that ask a receiver what it has when the resend timer fires; the second shows the loss
of the first."""

ASKED_GROWTH: Final = 64
"""Then this many times as many, and so on, if it has nothing behind them."""

HOLE_TOLD_MAX: Final = 20
"""How often a hole is named while nothing comes; then the sender's timer must do."""

ACKS_AT_ONCE: Final = 32
"""Messages acknowledged in one step, with one sync; 50 us each."""

VIEWS_AT_ONCE: Final = 100
"""Views on one page of a list."""

CONSUMERS_SHOWN_MAX: Final = 1_000
"""Consumers shown of one queue, holders of messages first."""

QUEUES_MEASURED_AT_ONCE: Final = 256
"""Queues, and similar things, that one step looks at; 3 us each."""

METRICS_QUEUES_MAX: Final = 1_000
"""Queues with metrics of their own: those with the oldest messages."""

METRICS_PEERS_MAX: Final = 1_000
"""Other queue managers with metrics of their own; all others are one."""

REPORTS_MAX: Final = 1_000
"""Trace reports of one commit or arriving run."""

REASON_CHARS_MAX: Final = 200
"""An operator's reason for resetting a stream."""

NOTICES_MAX: Final = 1_000
"""Different notices that are remembered."""

CONNECTION_HISTORY_MAX: Final = 16
"""Connection attempts that an outgoing queue remembers; the oldest go first (Q-10)."""

CONNECTIONS_MAX: Final = 4_096
"""Accepted connections of peers, of applications over TCP, of local applications, and made ones,
each; less if the limit of open files is lower."""

EMBEDDED_CONNECTIONS_MAX: Final = 256
"""Connections of a queue manager inside an application."""

HANDSHAKES_MAX: Final = 1_024
"""Unidentified connections; above it the oldest of the address with the most is cut."""

ADDRESS_HANDSHAKES_MAX: Final = 64
"""Of these, connections of one address; not on loopback."""

ADDRESS_CONNECTIONS_MAX: Final = 512
"""Connections of one unknown address; not on loopback."""

KNOWN_PEERS_MAX: Final = 10_000
"""GUIDs and addresses of known managers, which precede strangers."""

DESCRIPTORS_RESERVED: Final = 256
"""Descriptors for the store, the local socket, databases and history; a quarter of a limit below
1,024."""

DESCRIPTORS_LOCAL: Final = 64
"""Of these, descriptors for local applications."""

SPARE_DESCRIPTORS: Final = 16
"""Descriptors that are always ready for the store."""

ACCEPTS_AT_ONCE: Final = 64
"""Connections accepted in one turn of the loop."""

ACCEPT_PAUSE_S: Final = 0.5
"""Nobody is accepted for so long when the system has no descriptor or memory for it (seconds)."""

LOG_LINES_AT_ONCE: Final = 20
"""Lines of one kind that others can cause, within LOG_RATE_S; the rest is counted."""

LOG_RATE_S: Final = 60
"""How often a line with their number is written."""

HISTORY_ROWS_MAX: Final = 200_000
"""Rows of one history file."""

HISTORY_LOG_BYTES: Final = 32 << 20
"""Log after which a history file is written at the latest."""

HISTORY_NOTES_MAX: Final = 100_000
"""Observations and exact times in memory until the history is written."""

HISTORY_UNWRITTEN_BYTES_MAX: Final = 64 << 20
"""History files that wait for a failing disk; above it the oldest go."""

AUDIT_ASK_WAIT_S: Final = 30
"""How long an audit waits for a history to include what its manager has counted."""

AUDIT_ROWS_MAX: Final = 20_000_000
"""Rows of a landed table of one audit."""

HANDSHAKE_S_MAX: Final = 5
"""A connection that is not identified by then is closed."""

HANDSHAKE_BYTES_MAX: Final = 16 << 10
"""So is one that has sent more than this before."""

METRICS_EVERY_S: Final = 1
"""Seconds between two pages of metrics at least, however many clients ask."""

WATCHERS_MAX: Final = 16
"""Connections at ``metrics_listen`` at once."""

WATCH_S_MAX: Final = 5
"""A request of theirs that has not come by then is none (seconds)."""

WATCH_HEAD_BYTES_MAX: Final = 8 << 10
"""Of the head of such a request; a token has 60 characters."""

CERTIFICATE_WARN_DAYS: Final = 30
"""So long before a certificate ends the log and the status say so."""

CERTIFICATE_DAYS: Final = 397
"""A certificate that ``onceq tls`` makes is good for so long."""

AUTHORITY_DAYS: Final = 3_653
"""An authority that ``onceq tls`` makes is good for so long."""

INVITE_S_MAX: Final = 7 * 24 * 3_600
"""An invitation is good for so long at most."""

INVITES_MAX: Final = 1_024
"""Invitations that are kept, used and expired ones too."""

REMOVALS_MAX: Final = 10_000
"""Removed members that are known."""

MEMBERS_ASK_S: Final = 60
"""A member asks its authority so often whom it has removed."""

LOCAL_HANDSHAKE_S_MAX: Final = 60
"""An application at the Unix socket may take so long instead."""


LOG_SEGMENT_BYTES_MIN: Final = 256 << 10
"""Smallest segment of the log."""

LOG_SEGMENT_BYTES_MAX: Final = 256 << 20
"""Largest segment of the log."""

PLACES_AHEAD_MIN: Final = 1 << 20
"""Places of a queue that a start passes over, at least: more than express messages can have been
given since the last record, and more than come between two looks of ``top``."""

PLACES_AHEAD_MAX: Final = 1 << 34
"""... and about this many at most: of eight million starts none comes to the end of the counters,
and of two lives that give a million places each from the same copy on, one in ten thousand meets
the other."""
