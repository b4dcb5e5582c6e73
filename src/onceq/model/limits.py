"""Every limit of onceq, with its unit in its name and its reason beside it.

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
"""A multiple-element format name of some sixty long elements; keeps parsing time bounded."""

FORMAT_NAME_ELEMENTS_MAX: Final = 256
"""Destinations of one send; a commit record with all of them stays far below RECORD_BYTES_MAX."""

ANSWER_QUEUES_MAX: Final = 32
"""Administration queues, and response queues, of one message: each acknowledgment goes to each."""

DIRECTORY_RETRY_S: Final = 5.0
"""A manager that has nothing else to do looks so often for a directory that it lost (seconds)."""

LIST_NAME_CHARS_MAX: Final = 64
"""Characters of the name of a distribution list: it stands in tables and on command lines."""

DIRECTORY_LISTS_MAX: Final = 10_000
"""Distribution lists of a directory: it is read as a whole."""

DIRECTORY_MEMBERS_MAX: Final = 4_096
"""Members of one distribution list."""

DIRECTORY_ENTRIES_MAX: Final = 200_000
"""Computers and public queues of a directory, together."""

DIRECTORY_BYTES_MAX: Final = 64 << 20
"""Size of a directory's file: it is read as a whole when it has changed."""

DIRECTORY_LOOK_S: Final = 0.1
"""A busy manager looks at most so often whether the directory's file has changed (seconds): what
another has registered is known after this time. Commands about the directory look at once."""

DIRECTORY_DISPUTE_S_MAX: Final = 3_600.0
"""A manager whose entry in the directory somebody else changes again and again, as the copy of a
manager does, waits at most so long before it writes it again (seconds)."""

ACTOR_CHARS_MAX: Final = 128
"""Characters of the name of somebody who has rights."""

PATTERN_CHARS_MAX: Final = 512
"""Characters of a pattern of queue names; each ``*`` of a name takes three of them."""

GRANTS_MAX: Final = 50_000
"""Grants of one queue manager, without those of owners by making their queues; they are kept in
memory, some 1.5 KB each, and in each checkpoint."""

ALIKE_PATTERNS_MAX: Final = 256
"""Patterns that begin alike up to their first ``*``: a name is compared with each of them."""

SHARED_GRANTS_MAX: Final = 1_000
"""Grants of a directory: all who share it keep them, and log all of them when one has changed."""

SHARED_RIGHTS_BYTES_MAX: Final = 4 << 20
"""Size of the file of a directory's grants, read as a whole: as many have room with long names."""

SHARED_RIGHTS_NUMBER_MAX: Final = (1 << 53) - 1
"""Changes of a directory's grants that are counted: what any reader of JSON can keep."""

TRAIL_MAX: Final = 10_000
"""Acts of administration that are kept; some 300 bytes each, in each checkpoint."""

LOG_LINES_MAX: Final = 10_000
"""Lines of a daemon's log that wait for its reader; what comes then is counted instead."""

LOG_FLUSH_S_MAX: Final = 2.0
"""Seconds that the end of a daemon waits for its last lines to be written."""

FAILURE_CHARS_MAX: Final = 300
"""Characters kept of why a receiver gives a message back or refuses it; the client cuts longer."""

TRAIL_CHARS_MAX: Final = 400
"""Characters of what an act was about: names are long."""

TOKENS_MAX: Final = 10_000
"""Tokens of one queue manager, which administrators make; one fifth of its grants, because each
needs some to be of use."""

TOKEN_NAME_CHARS_MAX: Final = 64
"""Characters of the name of a token, which stands in its text."""

TOKEN_AGE_S_MAX: Final = 100 * 366 * 86_400
"""The longest time that a token is good for (seconds): longer is for ever."""

TOKEN_GRANTS_MAX: Final = 100
"""Grants that are made together with a token: they are one record."""

TOKEN_LINES_MAX: Final = 1_000
"""Lines of a file with a token for each queue manager: it is read for each connection."""

TOKEN_LOOK_S: Final = 3_600.0
"""Connections whose tokens expire are looked at at least so often (seconds): the wall clock may
have been set. A request on one is looked at each time."""

WRONG_TOKENS_AT_ONCE: Final = 10
"""Wrong tokens of one address (or account, at the Unix socket) that are looked at one after
another: a mistake in a service of ten processes."""

WRONG_TOKENS_A_S: Final = 2.0
"""And from then on so many a second: strangers cannot make it hash more."""

TOKEN_ADDRESSES_MAX: Final = 4_096
"""Addresses of which wrong tokens are remembered; those with the oldest are forgotten."""

TRACKING_AGE_S: Final = 7 * 86_400
"""Acknowledgments of tracked messages are removed after this time: longer than messages live."""

TRACKING_QUOTA_KB: Final = 256 << 10
"""Most that these acknowledgments may take; above, what became of a message stays unknown."""

REPLIES_AGE_S: Final = 86_400
"""Replies that nobody waited for any more are removed after this time; until then they are seen."""

REPLIES_TIDY_S: Final = 600
"""So often an application that sends requests looks for such replies."""

REPLIES_QUOTA_KB: Final = 256 << 10
"""Most that replies may take which were not fetched yet; above, they are refused to who replies."""

SILENT_S: Final = 120
"""A computer that says nothing for so long is lost, at both ends of every TCP connection; so is a
queue manager that an application waits for, on each kind of connection."""

REQUEST_GRACE_S: Final = 5
"""So long after its requester has given up a request may still be received: clocks of computers
differ, and one that is a little late would find every request expired."""

RETURN_MESSAGES_MAX: Final = 1_000
"""Dead letters that one command returns, if nobody says more: a mistake must not become a flood."""

DELAY_S_MAX: Final = 366 * 86_400
"""Longest delay of a message (a year): a later one is most likely in the wrong unit."""

DELAY_LOOK_S: Final = 60
"""Messages that are delayed are looked at at least so often (seconds): a clock may be set."""

RETURNS_MAX: Final = 5
"""How often a message is returned, if nobody says more: what died five times dies again."""

JOBS_RUNNING_MAX: Final = 16
"""Jobs of a queue manager that are not over: they are worked off one after another."""

JOBS_KEPT_MAX: Final = 100
"""Jobs that are remembered when they are over, each in every checkpoint; the oldest go first."""

JOB_QUEUES_MAX: Final = 64
"""Queues of one job: both dead-letter queues, and what policies have moved aside."""

IDENTIFIERS_MAX: Final = 1_000
"""Messages that a filter of letters names; a job keeps some 45 bytes for each."""

JOB_FAILURES_MAX: Final = 100
"""Messages of a job that failed and are named; all of them are counted. Some 300 bytes each."""

JOB_REASONS_MAX: Final = 20
"""Different reasons for which messages of a job stay; those of further ones are counted as one."""

JOB_TEXT_CHARS_MAX: Final = 400
"""Characters of an error that a job keeps, and of each text that says which messages it means."""

JOB_BATCH_MESSAGES: Final = 64
"""Messages that a job sends again in one step of some ten milliseconds: others wait for it."""

JOB_BATCH_BYTES: Final = 1 << 20
"""The same in bytes; one message is always sent."""

JOB_TRANSACTION_MESSAGES: Final = 512
"""Messages among which a job looks for the rest of a transaction, so that it is sent again whole
and in one step. What is larger or stands farther apart is torn, and the job counts that."""

JOB_PURGE_MESSAGES: Final = 512
"""Messages that a job removes for good in one step, which are not read for it."""

JOB_RETRY_S: Final = 2.0
"""A job that cannot go on (the disk is nearly full, somebody holds the queue for himself) tries
again after this time (seconds)."""

JOB_DIVERTED_MAX: Final = 20
"""Destinations that the log names of letters which a job sends elsewhere: a line for each."""

BACKUP_HOLD_S: Final = 60.0
"""A backup of which nothing is heard for so long (seconds) is over, and what it held is let go: it
keeps the log from being given back, and its maker may be gone."""

HOPS_MAX: Final = 29
"""The hop count field's largest legal value (Q-44)."""

MESSAGE_NUMBER_MAX: Final = 0x7FFF_FFFF
"""Numbers of stored messages begin again at 1 behind it; the rest is for order acknowledgments."""

EXTENSION_BYTES_MAX: Final = 1 << 20
"""Opaque extension bytes of one message; leaves room for a body in the packet."""

RECORD_BYTES_MAX: Final = 1 << 30
"""One record of the log. A transaction larger than TRANSACTION_BYTES_MAX is refused before."""

TRANSACTION_BYTES_MAX: Final = 512 << 20
"""Packets of one transaction over all destinations; they stand in memory until commit."""

TRANSACTION_MESSAGES_MAX: Final = 2_000_000
"""Messages sent and received by one transaction, over all destinations."""

OPEN_SEND_BYTES_MAX: Final = 1 << 30
"""Bodies of all transactions that are not committed yet, in memory."""

STREAM_NUMBERS_MAX: Final = (1 << 32) - (1 << 24)
"""Numbers of a stream that may be given before all of it is acknowledged: sequence numbers have 32
bits, and what was sent but not committed (OPEN_SEND_BYTES_MAX of it) must still find some."""

CLIENT_FRAME_BYTES_MAX: Final = 64 << 20
"""One frame of the client protocol; larger batches are cut by the client library."""

CLIENT_UNANSWERED_BYTES_MAX: Final = 64 << 20
"""Requests of one application that wait for their answers; it is read no further above."""

CLIENT_UNANSWERED_MAX: Final = 4_096
"""And their number, receives not counted."""

CLIENT_RECEIVES_MAX: Final = 1_024
"""Receives and peeks under way on one connection of an application."""

CLIENT_ANSWERS_BYTES_MAX: Final = 32 << 20
"""Packets of the answers to them that one application has not read, or is about to be given."""

ANSWERS_BYTES_MAX: Final = 256 << 20
"""The same over all applications. Room is asked for before an answer is built; one application gets
at most an eighth of what is left, and who finds none waits for his turn."""

ANSWERS_TURN_BYTES: Final = 64 << 20
"""Large answers that one turn builds, for all applications: others wait no longer behind them."""

CLIENT_STALLED_S_MAX: Final = 60
"""An application that has read none of its answers for so long (seconds) is cut while others wait
for the memory that they take."""

CLIENT_PEEKS_MAX: Final = 64
"""Of these, peeks that wait: one message answers them all, and each answer is a copy of it."""

RECEIVE_MESSAGES_MAX: Final = 10_000
"""Messages of one receive or peek request; clients ask again for more."""

RECEIVE_BYTES: Final = 8 << 20
"""Packets that our own clients ask for in one receive or peek of many: enough that a request costs
nothing beside them, and little memory on either side."""

RECEIVE_BYTES_MAX: Final = 32 << 20
"""Packets of one receive or peek answer (at least one message is always given)."""

SUBQUEUES_MAX: Final = 16_384
"""Subqueues of one queue manager."""
HANDLES_MAX: Final = 131_072
"""Queues that are held open at one time, each time counted; some 300 bytes each."""
CURSORS_MAX: Final = 65_536
"""Cursors that are open at one time."""
WAITING_READERS_MAX: Final = 10_000
"""Receive requests that wait at one time on one queue manager."""

OPEN_TRANSACTIONS_MAX: Final = 100_000
"""Transactions open at one time on one queue manager."""

XML_DEPTH_MAX: Final = 32
"""Elements inside each other in XML from outside (SRMP, mapping files)."""
XML_ELEMENTS_MAX: Final = 2_000
"""Elements of one such document."""
XML_TEXT_BYTES_MAX: Final = 64 << 10
"""Characters of text in one such document; bodies of messages stand beside it."""
MAPPING_FILE_BYTES_MAX: Final = 1 << 20
"""One mapping file: more than XML_ELEMENTS_MAX elements with long addresses take."""
MAPPING_FILES_MAX: Final = 256
"""Files of the folder of mappings: they are read as a whole when one of them has changed."""
MAPPING_LOOK_S: Final = 1.0
"""A manager that uses HTTP looks at most so often whether a mapping file has changed (seconds)."""
HTTP_ENTITY_BYTES_MAX: Final = (4 << 20) + (512 << 10)
"""Entity of one HTTP request: the largest body, and an envelope."""
HTTP_URL_CHARS_MAX: Final = 2_048
"""Characters of an address in an envelope; a queue's is far shorter, gateways may add to it."""
HTTP_POSTS_MAX: Final = 32
"""Messages that wait on one HTTP connection for their turn; they go one after another."""
PASSED_ON_MAX: Final = 10_000
"""Messages over HTTP that wait to be passed on and are recognized when their sender repeats them;
above, a repetition is passed on too, and its last receiver knows it."""
HTTP_RECEIPTS_MAX: Final = 64
"""Stream receipts that wait for one sender that cannot be reached; it will ask again."""

PREPARED_MAX: Final = 10_000
"""Branches of external transactions that are prepared at one time; those of their bodies that are
for other managers are in memory."""
DECISIONS_MAX: Final = 100_000
"""Decisions remembered because partners have not carried them out."""
GROUPS_MAX: Final = 10_000
"""Applications of which the last version of a group of branches is remembered; small entries."""
GROUP_AGE_S: Final = 90 * 86_400
"""Above, one that has not committed for so long (90 days) makes room for a new one."""
GROUP_APP_CHARS_MAX: Final = 200
"""Characters of the name of such an application, and of its query."""
GROUP_NOTE_CHARS_MAX: Final = 100
"""Characters of what is remembered of the destination and of the content of such a group."""
READERS_MAX: Final = 64
"""Readers of one queue of which it is remembered how far they have removed what they read: more
names than anybody gives; the one that has not for the longest time makes room, and is then not
warned when it begins anew."""
READER_CHARS_MAX: Final = 1_000
"""Characters of the name of such a reader, and of its query."""
LEASE_MS_MAX: Final = 3_600_000
"""An hour: a hold that nobody renews for longer is better one that never ends by itself."""
GTRID_BYTES_MAX: Final = 64
"""Bytes of a global transaction identifier, as in XA."""
PARTNER_CHARS_MAX: Final = 200
"""Characters of a partner's name that a queue manager takes."""
PARTNER_NAME_CHARS_MAX: Final = 60
"""Characters of a database's name: with a number it fits into a branch qualifier."""

QUEUES_MAX: Final = 100_000
"""Queues of one queue manager."""

OUTGOING_QUEUES_MAX: Final = 100_000
"""Outgoing queues of one queue manager (plan: 10^5 streams)."""

BOUND_NAMES_MAX: Final = 100_000
"""Names of other managers of which it is remembered who answers under them: each was connected to,
for an outgoing queue."""

OWNERS_MAX: Final = 4
"""Managers that have answered for one outgoing queue, one after another, and may still tell of
what they were given."""

KNOWN_AFTER_S: Final = 86_400
"""A manager that only sends here is a stranger for so long (a day) after its first message."""

STRANGERS_SHARE: Final = 2
"""Strangers fill one part in so many of the computer's quota, and of incoming streams."""

UNASKED_SHARE: Final = 4
"""Messages from elsewhere fill one part in so many of the computer's quota as dead letters here, in
each of the two dead-letter queues: nobody here has asked for them."""

STRANGER_QUEUES_MAX: Final = 1_000
"""Outgoing queues that exist only to answer strangers, who choose their names."""

ANSWERS_EACH_BYTES: Final = 256 << 10
"""Answers to a stranger that wait in one of them: more than a thousand."""

ANSWER_CONNECTS_MAX: Final = 8
"""Connections that are tried at one time for strangers alone."""

ANSWER_RETRY_S_MAX: Final = 600
"""Longest time between attempts to reach a stranger; they begin at connect_retry_s and double."""

STREAM_AHEAD_S_MAX: Final = 2 * 86_400
"""A message stream that claims to have begun later than this from now (two days) is refused: the
clocks of managers differ by hours where time zones are set wrongly, and everything a sender began
at its true time would be stale until then."""

REFUSED_AHEAD_MAX: Final = 256
"""Managers whose streams from the future were refused and that an operator can ask about; the
oldest is forgotten, and noted again when it is refused again."""

CLOCKS_AHEAD_MAX: Final = 1_024
"""Managers of which an operator may say that their clock was ahead."""

OUTGOING_NAMES_MAX: Final = 200_000
"""Further names of outgoing queues that are remembered: two more for each destination."""

UNDONE_MAX: Final = 1_024
"""Queue managers that are named for knowing of what a restore has undone; the first are enough to
see that there are many."""

LIVES_MAX: Final = 1_000
"""Starts of a queue manager of which it is remembered which streams they began, so that one that
nobody here began is noticed; the oldest go first."""

LIVES_MET_MAX: Final = 10_000
"""Other managers of which it is remembered which life of theirs was met last."""

LIVES_OF_ONE_MET_MAX: Final = 4
"""Lives of one other manager of which it is remembered when they were met first: two copies are
two, and a start of either is one more."""

CLASHES_MAX: Final = 1_000
"""Identities that two managers claim, and that are remembered as such; the oldest go first."""

WRONG_NAMES_MAX: Final = 100
"""Names of computers that lead to another one, in the status; the oldest go first."""

STREAMS_MAX: Final = 1_000_000
"""Incoming streams remembered; one small entry for each pair of sender and queue (I24)."""

DUPLICATE_IDS_MAX: Final = 10_000
"""Identifiers of non-transactional messages remembered to notice repetitions (EOD-27)."""

REFUSALS_MAX: Final = 10_000
"""Refusals remembered, to count each once however often its receiver tells of it."""

DRAINED_STREAMS_MAX: Final = 4_096
"""Own streams of which nothing waits any more, and of which it is remembered where they led, so
that a refusal that comes late is counted there; the oldest go first."""

LATE_REFUSALS_KEPT: Final = 8
"""Messages of one outgoing queue that were refused after they were acknowledged, and whose
identifiers are shown; all of them are counted."""

ACCEPTED_NUMBERS_MAX: Final = 1_024
"""Messages accepted last in a stream of which the message numbers are remembered, so that another
message under the same sequence number is noticed; over a restart the last one."""

ACCEPTED_STREAMS_MAX: Final = 2_048
"""And the streams of which they are (8 KB each); the longest unused go first."""

DUPLICATE_AGE_S_MAX: Final = 1_800
"""And for how long."""

OUTCOME_AGE_S: Final = 24 * 3600
"""How long after its last commit the outcomes of a client session can be asked for."""

OUTCOME_SESSIONS_MAX: Final = 100_000
"""Client sessions whose outcomes are remembered; the longest unused go first."""

OUTCOME_WINDOW: Final = 1_024
"""Commits of one session whose outcomes are remembered; also the most that may be under way."""

PEERS_REMEMBERED_MAX: Final = 10_000
"""Managers whose addresses are remembered for final acknowledgments, and as many whose computer
names are; the oldest go first."""

FENCES_MAX: Final = 20_000
"""Client sessions of which somebody was told that a commit had not happened; it is barred then."""

TIME_TO_REACH_QUEUE_DEFAULT_S: Final = 345_600
"""Four days, when the sender set none (CNF-19)."""

NOTICE_EVERY_S: Final = 3_600
"""A quota that is reached again and again is told of once in this time (PIT-11)."""

DOUBTS_MAX: Final = 50_000
"""Dead letters in doubt that a manager asks about; others stay in doubt (CNF-22)."""

ENDS_ASKED_S: Final = 14_400
"""Seconds after which a sender asks again of which acknowledged messages the end will be told; also
the longest that one waits for what its receiver has forgotten, if that can be reached."""

DOUBT_AGE_S: Final = 345_600
"""Seconds for which a message in doubt without a dead letter is kept, so that its sender can be
told the truth when its doubt is settled; then he is told that it stays in doubt."""

ACKS_DEFERRED_MAX: Final = 65_536
"""Messages whose acknowledgments wait until the directory can be read; half of them for senders
that are no strangers. Behind these, acknowledgments are dropped, with a notice."""

ACKS_DEFERRED_S: Final = 345_600
"""Seconds for which such acknowledgments wait, as a message does that says nothing of its time."""

LEFT_AHEAD: Final = 1 << 16
"""Messages of an outgoing queue that one durable mark allows to leave: how many of those that
wait at a crash may count as transmitted without having been."""

REST_BYTES_MIN: Final = 512
"""Bytes of a packet from its properties on, from which they are written once for all destinations
of a send. Smaller ones are written for each, because a packet in one part is read faster."""

SPARSE_POSITIONS_MAX: Final = 200_000
"""Positions of queues looked at in a second, or for each 8 MiB of log, for messages that keep an
old part of the log; in many small portions."""

LEFT_STREAMS_MAX: Final = 10_000
"""Streams that a receiver has left and can still be asked about; the oldest go first."""

PASSED_RANGES_MAX: Final = 64
"""Ranges of numbers that a receiver remembers as passed over in one stream."""

INQUIRY_STREAMS_MAX: Final = 16
"""Streams in one packet that asks or tells about doubts."""

NOTES_MAX: Final = 256
"""Such packets that wait to be sent on one session."""

EARLY_SESSION_BYTES_MAX: Final = 16 << 20
"""Transactional messages that came before one that is missing, and are kept until it comes, of one
session (bytes): what is under way when a message is lost. Above, they are dropped, and come again.
"""

EARLY_BYTES_MAX: Final = 64 << 20
"""The same over all sessions."""

EARLY_RUN_BYTES: Final = 1_024
"""What a run of such messages counts besides its packets, so that small ones are few enough."""

HOLE_AGAIN_S: Final = 0.1
"""What a receiver names as missing is sent again at most so often (seconds), and twice as long
after each time that did not help: a round trip fits in, and a liar gets little."""

HOLE_MESSAGES: Final = 16
"""So many messages of a hole are sent again at first: it may be that nothing in it is lost."""

HOLE_GROWTH: Final = 2
"""If the receiver takes these and names the rest, so many times as many follow, and so on."""

HOLES_WAITING_MAX: Final = 64
"""Such holes of one outgoing queue that wait for room on its session."""

ASKED_MESSAGES: Final = 2
"""When the resend timer rings, so many messages ask a receiver that names holes what it has. If the
first one is lost again, the other one shows it."""

ASKED_GROWTH: Final = 64
"""If it has nothing behind these, so many times as many follow, and so on."""

HOLE_TOLD_MAX: Final = 20
"""How often a hole is named while nothing comes, after which its sender's own timer must do."""

ACKS_AT_ONCE: Final = 32
"""Messages of which acknowledgments are made in one step, for one sync; the others follow. Each
takes some 50 us: its packet is read and another one is written, for each queue that it names."""

VIEWS_AT_ONCE: Final = 100
"""Views on one page of a list, and in one step: some 60 us each, and as much for their bytes."""

CONSUMERS_SHOWN_MAX: Final = 1_000
"""Those that work on one queue and are told of: some 5 us each. Who holds messages comes first."""

QUEUES_MEASURED_AT_ONCE: Final = 256
"""Queues, and other things of which there may be many, that one step looks at; some 3 us each."""

METRICS_QUEUES_MAX: Final = 1_000
"""Queues that are told of one by one in metrics: each is a few series for whoever collects them,
and some 10 us to answer. Of more, those with the oldest messages."""

METRICS_PEERS_MAX: Final = 1_000
"""Other queue managers that are told of one by one in metrics; all others are one."""

REPORTS_MAX: Final = 1_000
"""Reports on traced messages that one commit or one arriving run makes."""

REASON_CHARS_MAX: Final = 200
"""Characters of the reason that an operator gives for setting a stream back."""

NOTICES_MAX: Final = 1_000
"""Different things that were told of and are remembered for that."""

CONNECTION_HISTORY_MAX: Final = 16
"""Attempts to connect that an outgoing queue remembers; the oldest go first (Q-10)."""

CONNECTIONS_MAX: Final = 4_096
"""Accepted connections of peers, as many of applications over TCP, of applications of this
computer, and made ones. Cut to what the process's limit of open files leaves."""

EMBEDDED_CONNECTIONS_MAX: Final = 256
"""Connections of a queue manager inside an application: the descriptors are the application's."""

HANDSHAKES_MAX: Final = 1_024
"""Connections that have not said who they are; above, the oldest of the address that has most goes:
a stranger who opens many displaces himself, not a peer who is about to speak."""

ADDRESS_HANDSHAKES_MAX: Final = 64
"""Of these, connections of one address. Not counted on loopback, where all managers and
applications of a computer have one address."""

ADDRESS_CONNECTIONS_MAX: Final = 512
"""Connections of one address that is not known (no manager that messages were exchanged with, nor
configured): a house behind one address, or a computer with many applications. Not on loopback."""

KNOWN_PEERS_MAX: Final = 10_000
"""GUIDs and addresses of managers that messages were exchanged with, which go before strangers; the
longest unused are forgotten."""

DESCRIPTORS_RESERVED: Final = 256
"""Descriptors that connections from elsewhere leave to the store (one for each 16 MiB), the local
socket, databases and history; less where the limit of open files is below 1,024: a quarter."""

DESCRIPTORS_LOCAL: Final = 64
"""Of these, descriptors that applications of this computer may use at their socket."""

SPARE_DESCRIPTORS: Final = 16
"""Descriptors held ready for the store, whatever else the process opens."""

ACCEPTS_AT_ONCE: Final = 64
"""Connections accepted in one turn of the loop: what those who are there have sent comes next."""

ACCEPT_PAUSE_S: Final = 0.5
"""Nobody is accepted for so long when the system has no descriptor or memory for it (seconds)."""

LOG_LINES_AT_ONCE: Final = 20
"""Lines of one kind that others can cause, written within LOG_RATE_S; the rest is counted."""

LOG_RATE_S: Final = 60
"""A line with their number is written at most so often (seconds)."""

HISTORY_ROWS_MAX: Final = 200_000
"""Rows of one file of a history; they stand in memory until it is written."""

HISTORY_LOG_BYTES: Final = 32 << 20
"""Log after which the history goes on, however little time has passed: a file of some megabytes."""

HISTORY_NOTES_MAX: Final = 100_000
"""Things without a record (transmissions, repetitions) and exact times that are kept in memory
until the history goes on; the oldest go first."""

HISTORY_UNWRITTEN_BYTES_MAX: Final = 64 << 20
"""Files of a history that wait for a disk that fails: more than the log between two checkpoints
comes to. Above, the oldest go."""

AUDIT_EVENTS_MAX: Final = 60_000_000
"""Events of histories that one audit without Spark takes: each needs some 150 bytes of memory."""

AUDIT_ASK_WAIT_S: Final = 30
"""An audit waits so long for a history to tell of what its manager has counted."""

AUDIT_PROOF_EVENTS_MAX: Final = 20_000_000
"""New events that one audit with a proof takes, which holds all of their columns: some 550 bytes of
memory each."""

AUDIT_ROWS_MAX: Final = 20_000_000
"""Rows of a landed table that one audit takes: they stand in memory beside the events."""

HANDSHAKE_S_MAX: Final = 5
"""A connection from elsewhere that has not said who it is by then is closed (seconds)."""

HANDSHAKE_BYTES_MAX: Final = 16 << 10
"""And so is one that has sent more than this before."""

METRICS_EVERY_S: Final = 1
"""Pages of metrics are made anew at most so often (seconds), however many ask."""

WATCHERS_MAX: Final = 16
"""Connections of those who watch (``metrics_listen``) at once; above, the oldest that has not asked
yet makes room."""

WATCH_S_MAX: Final = 5
"""A request of theirs that has not come by then is none (seconds)."""

WATCH_HEAD_BYTES_MAX: Final = 8 << 10
"""Of the head of such a request; a token has 60 characters."""

CERTIFICATE_WARN_DAYS: Final = 30
"""So long before a certificate ends the log and the status say so: time for people to act."""

CERTIFICATE_DAYS: Final = 397
"""A certificate that ``onceq tls`` makes is good for so long: what others take at most."""

AUTHORITY_DAYS: Final = 3_653
"""And the authority that signs them for ten years: another one has to be brought to everybody."""

INVITE_S_MAX: Final = 7 * 24 * 3_600
"""An invitation is good for so long at most (seconds): whoever reads it may use it."""

INVITES_MAX: Final = 1_024
"""Invitations that are kept, used and expired ones among them: so many files."""

REMOVALS_MAX: Final = 10_000
"""Removed members that are known; a member that asks is told all of them."""

MEMBERS_ASK_S: Final = 60
"""A member asks its authority so often whom it has removed (seconds)."""

LOCAL_HANDSHAKE_S_MAX: Final = 60
"""An application of this computer may take longer (seconds): who opens the socket has a name."""


LOG_SEGMENT_BYTES_MIN: Final = 256 << 10
"""Smallest segment of the log: a smaller one would hold few commits, and each needs two syncs."""

LOG_SEGMENT_BYTES_MAX: Final = 256 << 20
"""Largest segment: two are prepared, and one that is in use is given back only as a whole."""

PLACES_AHEAD_MIN: Final = 1 << 20
"""Places of a queue that a start passes over, at least: more than express messages can have been
given since the last record, and more than come between two looks of ``top``."""

PLACES_AHEAD_MAX: Final = 1 << 34
"""... and about so many at most: of eight million starts none comes to the end of the counters, and
of two lives that give a million places each from the same copy on, one in ten thousand meets the
other."""
