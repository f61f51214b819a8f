-- What callers who want the same unique key wait for each other on: one row for each 2^20th of all keys, made when it is first
-- wanted, and never changed. No lock outlives the server, so no row has to.
create unlogged table {s}.key_lock (
  slot int primary key
) with (autovacuum_enabled = off);

-- Rows of keys are from now on only those that count for a period. The others are purged when their day is over.
