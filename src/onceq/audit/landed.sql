-- The tables about one landed table: its rows beside the events of all queues of the histories.
--
-- Given are ``landed_row`` (a row of the table that says a message), ``landing`` (one row: who
-- reads) and ``landed_queue`` (the queues that the table is of); see landed.py. A landing writes the
-- rows of a batch, and removes its messages with the next one or at its end. So a row whose message
-- waits is no fault, and a message that the landing has received stands in a row.

-- table placed: events that are about a message in a queue of its own.
SELECT
  e.event_row, e.event, e.manager, q.local AS queue, e.source, e.message, e.lookup, e.crc,
  e.reader, e.reader_told,
  e.event IN ('committed', 'sent', 'accepted', 'dead-lettered', 'journaled') AS came,
  e.event IN ('received', 'expired', 'rejected', 'purged', 'deleted') AS ended
FROM event e
JOIN queue_name q ON q.queue = e.queue
JOIN party s ON s.party = e.source
WHERE
  e.kind IN ('queue', 'dead-letter', 'journal') AND e.message IS NOT NULL
  AND s.id <> '$nobody' AND NOT e.observed
  AND e.event IN (
    'committed', 'sent', 'accepted', 'dead-lettered', 'journaled', 'moved', 'given-back',
    'received', 'expired', 'rejected', 'purged', 'deleted'
  );

-- table placed_message: what is told of each message in each queue.
SELECT
  manager, queue, source, message,
  min(event_row) FILTER (WHERE event <> 'given-back') AS came_row,
  count(*) FILTER (WHERE came) AS came,
  coalesce(bool_or(ended), false) AS ended,
  min(event_row) FILTER (WHERE crc IS NOT NULL) AS crc_row,
  min_by(crc, event_row) FILTER (WHERE crc IS NOT NULL) AS crc
FROM placed
GROUP BY manager, queue, source, message;

-- table landed: each row with what the histories say of its message:
--   known      any event is about it in that queue;
--   whole      the history of its manager is whole;
--   newer      its place is behind all that its history tells of the queue;
--   made       it may be of an acknowledgment or a report, which the manager itself has made: when
--              they come into a queue, its history does not tell their own identifiers;
--   planned    its queue is one that the table is of;
--   nth_place  how many rows there are of its message at its place, up to this one;
--   nth        and how many of its message in its queue, of which none is at the place of another.
SELECT
  r.*, m.came IS NOT NULL AS known, m.came_row, m.crc_row,
  m.crc AS told_crc, coalesce(m.came, 0) AS came, coalesce(m.ended, false) AS ended,
  s.somewhere_row, p.party IS NOT NULL AS here, coalesce(p.whole, false) AS whole,
  p.party IS NOT NULL AND NOT $settled AND coalesce(r.lookup > n.newest, true) AS newer,
  coalesce(r.source = r.manager, false) AND (coalesce(o.acks, false) OR NOT coalesce(o.others, false))
    AS made,
  l.queue IS NOT NULL AS planned,
  row_number() OVER (
    PARTITION BY r.host, r.queue, r.source, r.message, r.nth_place > 1 ORDER BY r.landed_row
  ) AS nth
FROM (
  SELECT
    *, row_number() OVER (
      PARTITION BY host, queue, source, message, lookup ORDER BY landed_row
    ) AS nth_place
  FROM landed_row
) r
LEFT JOIN party p ON p.party = r.manager
LEFT JOIN placed_message m
  ON m.manager = r.manager AND m.queue = r.queue AND m.source = r.source AND m.message = r.message
LEFT JOIN (
  SELECT source, message, min(event_row) FILTER (WHERE came OR event = 'moved') AS somewhere_row
  FROM placed GROUP BY source, message
) s ON s.source = r.source AND s.message = r.message
LEFT JOIN (
  SELECT manager, queue, lookup >> 56 AS lane, max(lookup) AS newest
  FROM placed GROUP BY manager, queue, lookup >> 56
) n ON n.manager = r.manager AND n.queue = r.queue AND n.lane = r.lookup >> 56
LEFT JOIN (
  SELECT
    e.manager, q.local AS queue, e.lookup, bool_or(e.event = 'told') AS acks,
    bool_or(e.event <> 'told') AS others
  FROM event e JOIN queue_name q ON q.queue = e.queue
  WHERE e.kind IN ('queue', 'dead-letter', 'journal') AND NOT e.observed
  GROUP BY e.manager, q.local, e.lookup
) o ON o.manager = r.manager AND o.queue = r.queue AND o.lookup = r.lookup
LEFT JOIN landed_queue l ON l.queue = r.queue;

-- table owed: receptions by the landing, with how many rows their messages have.
SELECT
  e.event_row AS about_row, coalesce(r.landed_rows, 0) AS landed_rows,
  row_number() OVER (
    PARTITION BY e.manager, e.queue, e.source, e.message ORDER BY e.event_row
  ) AS nth
FROM placed e
JOIN landing g ON g.reader = e.reader AND g.alone
LEFT JOIN (
  SELECT manager, queue, source, message, count(*) AS landed_rows
  FROM landed_row GROUP BY manager, queue, source, message
) r ON r.manager = e.manager AND r.queue = e.queue AND r.source = e.source AND r.message = e.message
WHERE e.event = 'received';

-- table others: messages in no row that were received among those that are in rows: by others, and
-- by nobody knows whom.
SELECT
  count(*) FILTER (WHERE e.reader_told AND e.reader IS DISTINCT FROM g.reader) AS others,
  count(*) FILTER (WHERE NOT e.reader_told) AS untold
FROM placed e
JOIN (
  SELECT manager, queue, lookup >> 56 AS lane, min(lookup) AS first, max(lookup) AS last
  FROM landed_row GROUP BY manager, queue, lookup >> 56
) r ON r.manager = e.manager AND r.queue = e.queue AND r.lane = e.lookup >> 56
CROSS JOIN landing g
LEFT JOIN (
  SELECT DISTINCT manager, queue, source, message FROM landed_row
) m ON m.manager = e.manager AND m.queue = e.queue AND m.source = e.source AND m.message = e.message
WHERE e.event = 'received' AND m.message IS NULL AND e.lookup >= r.first AND e.lookup <= r.last;
