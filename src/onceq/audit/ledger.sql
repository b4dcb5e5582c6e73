-- The tables that the rules look at. Each block is one query, whose result is the table that its
-- first line names; those of one block are made before the next one begins.
--
-- Given are ``event`` (see events.py), ``party`` (what is known of each manager) and ``queue_name``
-- (what the name of each queue says). This is the SQL that DuckDB and Spark have in common: window
-- functions have no FILTER, and no column is compared with NULL but by IS [NOT] DISTINCT FROM.

-- table grave: the places of dead letters in queues of applications' own. What happens to these is
-- no part of the story of the copy that died.
SELECT DISTINCT manager, place, lookup
FROM event
WHERE event = 'dead-lettered' AND place >= $own_graves_from;

-- table counted: one row for each copy of each transactional message, with how often each event was
-- told of it, and with the rows of those that matter. A copy is a message on its way to one
-- destination. In a stream it is known by source, stream and number at both managers; one that
-- never leaves its manager by its identifier and queue. Copies of one stream, or of one source in
-- one local queue (``home``), are a lane: their numbers follow each other.
SELECT
  min(event_row) AS copy, source, stream, home, number,
  min_by(message, event_row) FILTER (WHERE message IS NOT NULL) AS message,
  min(message) FILTER (WHERE stored) AS least_message,
  max(message) FILTER (WHERE stored) AS most_message,
  min(event_row) FILTER (WHERE event = 'committed' AND NOT observed) AS put_row,
  min(event_row) FILTER (WHERE event = 'accepted') AS taken_row,
  min(event_row) FILTER (WHERE event = 'acknowledged') AS acked_row,
  min(event_row) FILTER (WHERE event = 'received' AND kind = 'queue') AS got_row,
  max(event_row) FILTER (WHERE event = 'moved') AS moved_row,
  min_by(manager, event_row) FILTER (WHERE event = 'refused') AS refuser,
  max_by(time, event_row) FILTER (WHERE event = 'transmitted') AS sent_time,
  max_by(time, event_row) FILTER (WHERE event = 'duplicate') AS came_time,
  count(*) FILTER (WHERE event = 'committed' AND NOT observed) AS committed,
  count(*) FILTER (WHERE event = 'accepted') AS accepted,
  count(*) FILTER (WHERE event = 'refused') AS refused,
  count(*) FILTER (WHERE event = 'acknowledged') AS acknowledged,
  count(*) FILTER (WHERE event = 'confirmed') AS confirmed,
  count(*) FILTER (WHERE event = 'not-received') AS not_received,
  count(*) FILTER (WHERE event = 'transmitted') AS transmitted,
  count(*) FILTER (WHERE event = 'duplicate') AS repeated,
  count(*) FILTER (WHERE event = 'received' AND kind = 'queue') AS received,
  count(*) FILTER (WHERE event = 'expired' AND kind = 'queue') AS expired,
  count(*) FILTER (WHERE event = 'rejected' AND kind = 'queue') AS rejected,
  count(*) FILTER (WHERE event = 'purged' AND kind = 'queue') AS purged,
  count(*) FILTER (WHERE event = 'deleted' AND kind = 'queue') AS deleted,
  count(*) FILTER (WHERE event = 'not-delivered' AND kind = 'outgoing') AS not_delivered,
  count(*) FILTER (WHERE event = 'in-doubt' AND kind = 'outgoing') AS in_doubt,
  count(*) FILTER (WHERE event = 'purged' AND kind = 'outgoing') AS removed
FROM (
  SELECT
    e.*, CASE WHEN e.stream IS NULL THEN q.base END AS home,
    e.event = 'accepted' OR (e.event = 'committed' AND NOT e.observed) AS stored
  FROM (
    SELECT
      event_row, event, observed, kind, manager, place, lookup, time, source, stream, message,
      queue, CASE WHEN stream IS NULL THEN message ELSE number END AS number
    FROM event
    WHERE
      transactional AND event <> 'passed-over'
      AND (kind IS NULL OR kind IN ('queue', 'outgoing'))
      AND (stream IS NOT NULL OR (kind = 'queue' AND message IS NOT NULL))
  ) e
  LEFT JOIN queue_name q ON q.queue = e.queue
  LEFT JOIN grave g ON g.manager = e.manager AND g.place = e.place AND g.lookup = e.lookup
  WHERE g.manager IS NULL
)
GROUP BY source, stream, home, number;

-- table mixed: of copies under whose number several messages were stored, how many these are.
SELECT c.copy, count(DISTINCT e.message) AS messages
FROM counted c
JOIN event e
  ON e.source = c.source AND e.stream = c.stream AND e.number = c.number
WHERE
  c.least_message < c.most_message AND e.transactional
  AND (e.event = 'accepted' OR (e.event = 'committed' AND NOT e.observed))
GROUP BY c.copy;

-- table followed: copies with what is known of the first event that committed (put), accepted
-- (taken), acknowledged (acked) or received (got) each, and of the last that moved it.
SELECT
  c.*,
  coalesce(m.messages, CASE WHEN c.least_message IS NULL THEN 0 ELSE 1 END) AS messages,
  c.received + c.expired + c.rejected + c.purged + c.deleted AS queue_ends,
  c.not_delivered + c.in_doubt + c.removed AS given_up,
  c.not_delivered + c.in_doubt + c.removed + c.confirmed + c.not_received AS sender_ends,
  p.manager AS put_manager, p.queue AS put_queue, p.place AS put_place, p.lookup AS put_lookup,
  p.time AS put_time, p.position AS put_position, p.ordinal AS put_ordinal, p.size AS put_size,
  p.crc AS put_crc, p.transaction AS put_transaction,
  CASE WHEN p.kind = 'outgoing' THEN p.place END AS outgoing,
  t.manager AS taken_manager, t.queue AS taken_queue, t.place AS taken_place,
  t.lookup AS taken_lookup, t.time AS taken_time, t.position AS taken_position,
  t.ordinal AS taken_ordinal, t.size AS taken_size, t.crc AS taken_crc,
  t.transaction AS taken_transaction,
  a.manager AS acked_manager, a.position AS acked_position, a.time AS acked_time,
  g.manager AS got_manager, g.queue AS got_queue, g.place AS got_place, g.lookup AS got_lookup,
  g.time AS got_time, g.position AS got_position, g.size AS got_size, g.crc AS got_crc,
  v.manager AS moved_manager, v.place AS moved_place, v.lookup AS moved_lookup
FROM counted c
LEFT JOIN event p ON p.event_row = c.put_row
LEFT JOIN event t ON t.event_row = c.taken_row
LEFT JOIN event a ON a.event_row = c.acked_row
LEFT JOIN event g ON g.event_row = c.got_row
LEFT JOIN event v ON v.event_row = c.moved_row
LEFT JOIN mixed m ON m.copy = c.copy;

-- table heard_from: who has told of anything out of an outgoing queue; of several the first by name.
SELECT f.put_manager, f.outgoing, min_by(p.party, p.id) AS heard_party
FROM followed f
JOIN party p ON p.party = coalesce(f.taken_manager, f.refuser)
WHERE f.outgoing IS NOT NULL
GROUP BY f.put_manager, f.outgoing;

-- table copy: copies with their receiver, as far as that is known (receiver), and with where the
-- histories are complete enough for the absence of an event to mean that nothing happened:
--   hole_known      the receiver tells of everything up to a later message of the stream;
--   end_known       the receiver tells of everything up to after its acknowledgment;
--   sender_known    the sender tells of everything up to after its arrival;
--   receiver_known  there is a whole history of the receiver.
SELECT
  c.*,
  reaches AND later AS hole_known,
  (reaches AND later) OR (receiver_known AND coalesce(acked_time < receiver_up_to - $slack_us, false))
    OR (reaches AND $settled) AS end_known,
  sender_whole AND (
    $settled OR stream IS NULL OR later_sent
    OR coalesce(taken_time < sender_up_to - $slack_us, false)
  ) AS sender_known
FROM (
  SELECT
    f.*,
    s.whole AS sender_whole, s.up_to AS sender_up_to,
    r.up_to AS receiver_up_to, coalesce(r.whole, false) AS receiver_known,
    coalesce(r.unbroken, false) AS receiver_unbroken,
    coalesce(p.unbroken, false) AS put_unbroken, coalesce(t.unbroken, false) AS taken_unbroken,
    coalesce(g.unbroken, false) AS got_unbroken,
    coalesce(r.whole, false) OR (coalesce(r.unbroken, false) AND coalesce(first_taken < number, false))
      AS reaches,
    coalesce(number < last_taken, false) AS later,
    coalesce(number < last_put, false) AS later_sent,
    NOT coalesce(pq.http, false) AS native,
    pq.path AS put_path, tq.path AS taken_path
  FROM (
    SELECT
      f.*,
      coalesce(
        f.taken_manager, f.refuser, h.heard_party,
        CASE WHEN f.stream IS NULL THEN f.put_manager END, q.named_party
      ) AS receiver,
      max(CASE WHEN f.accepted > 0 AND f.stream IS NOT NULL THEN f.number END) OVER lane
        AS last_taken,
      min(CASE WHEN f.accepted > 0 AND f.stream IS NOT NULL THEN f.number END) OVER lane
        AS first_taken,
      max(CASE WHEN f.committed > 0 AND f.stream IS NOT NULL THEN f.number END) OVER lane
        AS last_put
    FROM followed f
    LEFT JOIN heard_from h ON h.put_manager = f.put_manager AND h.outgoing = f.outgoing
    LEFT JOIN queue_name q ON q.queue = f.put_queue
    WINDOW lane AS (PARTITION BY f.source, f.stream, f.home)
  ) f
  JOIN party s ON s.party = f.source
  LEFT JOIN party r ON r.party = f.receiver
  LEFT JOIN party p ON p.party = f.put_manager
  LEFT JOIN party t ON t.party = f.taken_manager
  LEFT JOIN party g ON g.party = f.got_manager
  LEFT JOIN queue_name pq ON pq.queue = f.put_queue
  LEFT JOIN queue_name tq ON tq.queue = f.taken_queue
) c;

-- table letter: one row for each message in a queue that left a dead letter or a journal copy, or
-- should have, by the place that it comes from. Most messages have neither, and are left out first.
SELECT
  coalesce(min(event_row) FILTER (WHERE committed), min(event_row)) AS about_row,
  count(*) FILTER (WHERE committed) AS committed,
  coalesce(bool_or(dead_letter) FILTER (WHERE committed), false) AS wanted,
  coalesce(bool_or(journal) FILTER (WHERE committed), false) AS journaled,
  coalesce(bool_or(message_class IN ($refusals)) FILTER (WHERE buried), false) AS refused,
  count(*) FILTER (WHERE negative AND NOT moved) AS negative,
  count(*) FILTER (WHERE event IN ('received', 'acknowledged', 'confirmed') AND NOT moved)
    AS positive,
  count(*) FILTER (WHERE buried AND moved) AS dead,
  count(DISTINCT CASE WHEN buried THEN place END) AS graves,
  CASE WHEN count(*) FILTER (WHERE buried AND moved) = 1
    THEN max(message_class) FILTER (WHERE buried AND moved) END AS reason,
  CASE WHEN count(*) FILTER (WHERE negative AND NOT moved) = 1
    THEN max(message_class) FILTER (WHERE negative AND NOT moved) END AS ended,
  count(*) FILTER (WHERE copied AND moved) AS copied,
  count(*) FILTER (WHERE copied AND moved AND place < $own_graves_from) AS own,
  count(DISTINCT CASE WHEN copied THEN place END) AS journals
FROM (
  SELECT
    e.*, from_place IS NOT NULL AS moved, event = 'committed' AS committed,
    event = 'dead-lettered' AS buried, event = 'journaled' AS copied,
    event IN ('not-delivered', 'in-doubt', 'not-received') OR (
      event IN ('purged', 'expired', 'rejected', 'deleted') AND message_class IS NOT NULL
    ) AS negative
  FROM event e
  JOIN party p ON p.party = e.manager
  JOIN (
    SELECT DISTINCT
      manager AS origin_manager, coalesce(from_place, place) AS origin_place,
      coalesce(from_lookup, lookup) AS origin_lookup
    FROM event
    WHERE transactional AND NOT observed AND (
      event IN ('dead-lettered', 'journaled', 'not-delivered', 'in-doubt', 'not-received') OR (
        event IN ('purged', 'expired', 'rejected', 'deleted') AND message_class IS NOT NULL
      )
    )
  ) o ON o.origin_manager = e.manager AND o.origin_place = coalesce(e.from_place, e.place)
    AND o.origin_lookup = coalesce(e.from_lookup, e.lookup)
  WHERE e.transactional AND NOT e.observed AND p.readable
)
GROUP BY manager, coalesce(from_place, place), coalesce(from_lookup, lookup);

-- table word: one row for each message that a manager with a whole history has acknowledged by a
-- message, with what these say and what has happened there.
SELECT w.*, coalesce(n.copies, 0) = 1 AS alone
FROM (
  SELECT
    e.manager, e.source, e.message, min(e.event_row) AS about_row,
    count(*) FILTER (WHERE e.event IN ('accepted', 'committed', 'sent') AND e.kind = 'queue')
      AS entries,
    count(*) FILTER (WHERE e.event = 'received' AND e.kind = 'queue') AS received,
    count(*) FILTER (WHERE e.event = 'told' AND e.message_class = $reached) AS reached,
    count(*) FILTER (WHERE e.event = 'told' AND e.message_class = $got) AS got,
    count(*) FILTER (WHERE e.event = 'told' AND e.message_class >= $not_reached
      AND e.message_class < $not_got) AS unreached,
    count(*) FILTER (WHERE e.event = 'told' AND e.message_class >= $not_got) AS ungot
  FROM event e
  JOIN (
    SELECT DISTINCT e.manager, e.source, e.message
    FROM event e JOIN party p ON p.party = e.manager
    WHERE e.event = 'told' AND NOT e.observed AND e.message IS NOT NULL AND p.whole
  ) s ON s.manager = e.manager AND s.source = e.source AND s.message = e.message
  WHERE NOT e.observed
  GROUP BY e.manager, e.source, e.message
) w
LEFT JOIN (
  SELECT source, message, count(*) AS copies
  FROM counted
  WHERE message IS NOT NULL
  GROUP BY source, message
) n ON n.source = w.source AND n.message = w.message;

-- table fate: what has become of each copy, in a word, and from where to where it went, for people.
SELECT
  c.copy,
  CASE
    WHEN c.received > 0 THEN 'received'
    WHEN c.rejected > 0 THEN 'rejected'
    WHEN c.expired > 0 THEN 'expired'
    WHEN c.deleted > 0 THEN 'queue deleted'
    WHEN c.purged > 0 THEN 'purged'
    WHEN c.refused > 0 THEN 'refused'
    WHEN (c.accepted > 0 OR (c.committed > 0 AND c.outgoing IS NULL))
      AND r.untold_to > coalesce(c.taken_position, c.put_position) THEN 'untold'
    WHEN c.accepted > 0 OR (c.committed > 0 AND c.outgoing IS NULL) THEN 'waiting'
    WHEN c.not_delivered > 0 THEN 'not delivered'
    WHEN c.removed > 0 THEN 'removed'
    WHEN c.confirmed > 0 THEN 'received'
    WHEN c.not_received > 0 THEN 'not received'
    WHEN c.in_doubt > 0 THEN 'in doubt'
    WHEN c.acknowledged > 0 THEN 'unverified'
    WHEN c.committed > 0 THEN 'in flight'
    ELSE 'unknown'
  END AS state,
  coalesce(r.told, false) AS receiver_told,
  concat(
    coalesce(s.name, s.id), ' → ',
    CASE WHEN r.name IS NULL THEN coalesce(q.name, '?')
      ELSE concat(r.name, $stroke, coalesce(q.shown, '?')) END
  ) AS route
FROM copy c
LEFT JOIN party s ON s.party = coalesce(c.put_manager, c.source)
LEFT JOIN party r ON r.party = c.receiver
LEFT JOIN queue_name q ON q.queue = coalesce(c.taken_queue, c.put_queue, c.got_queue);
