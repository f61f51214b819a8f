-- {s} is the schema as a quoted identifier, {l} the same inside a literal. Times are the database's. Ids are UUIDs.

-- Kinds and queues are stored by number. A name keeps its number for ever.
create table {s}.name (
  id   int  generated always as identity primary key,
  text text collate "C" not null unique
);

-- A job has exactly one row from its enqueue to its end. seq is its place in the queue; what is put back to the front
-- moves to the band below zero (seq - 2^62). What a claim writes is in no index, and pages are kept half empty, so
-- that a claim is a heap-only update; a delete ends the job.
create sequence {s}.job_seq;
create sequence {s}.claim_seq increment 100000;
create table {s}.job (
  id          uuid        primary key,
  seq         bigint      not null default nextval('{l}.job_seq'),
  holder      bigint,              -- session; null unless reserved
  claim       bigint,              -- token of the reservation
  attempt     int         not null default 0, -- a claim changes this and the two before it: side by side, they make a short log record
  queue       int         not null,
  kind        int         not null,
  requeues    int         not null default 0,
  started     bigint,              -- token of the reservation that left the start mark
  run_at      timestamptz,         -- null unless scheduled
  ready_at    timestamptz,         -- when it became, or becomes, ready; null: at its enqueue
  enqueued_at timestamptz not null default now(),
  crashes     smallint    not null default 0,
  flags       smallint    not null default 0, -- 1 once, 2 starts off, 4 has rows in attempt or verdict, 8 cancel, 16 its key counts only while it waits
  letter      uuid,                -- dead letter it was redriven or retried from
  ukey        uuid,                -- of a unique key that counts while the job lives
  progress    text,
  envelope    bytea       not null
) with (
  fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2,
  toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0
);
alter table {s}.job alter column envelope set storage external;
create index job_ready   on {s}.job (queue, seq) where run_at is null;
create index job_due     on {s}.job (run_at) include (queue) where run_at is not null;
create index job_suspect on {s}.job (queue, seq) where run_at is null and crashes >= 2;
create index job_key     on {s}.job (ukey)       where ukey is not null;
create index job_time    on {s}.job using brin (enqueued_at) with (pages_per_range = 64);

-- Ended jobs are remembered so that an id is accepted once, and kept to be looked at. They lie in tables done_N made
-- like this one, each for one span of time, which are dropped when they are over age. finished_at is null where only
-- the id is remembered.
create table {s}.done (
  id          uuid     primary key,
  finished_at timestamptz,
  enqueued_at timestamptz,
  queue       int,
  kind        int,
  attempt     int,
  requeues    int,
  crashes     smallint,
  state       smallint not null, -- 0 done, 1 dead, 2 removed
  letter      uuid,
  history     text,              -- JSON array of attempts that failed
  envelope    bytea
) with (autovacuum_enabled = off, toast.autovacuum_enabled = off);
alter table {s}.done alter column envelope set storage external;
create index done_time on {s}.done using brin (enqueued_at) with (pages_per_range = 256, autosummarize = on);

create table {s}.slot (
  n          int         generated always as identity primary key, -- of the table done_N
  from_at    timestamptz not null,
  until_at   timestamptz not null,
  used_at    timestamptz,         -- at least a minute before the latest row
  retired_at timestamptz          -- its rows are forgotten; the table is dropped some minutes later
);

-- The rest is touched only by jobs that need it.
create table {s}.attempt (
  n      bigint generated always as identity,
  job_id uuid   not null,
  record text   not null, -- JSON
  primary key (job_id, n)
);

create table {s}.verdict (
  job_id uuid primary key,
  letter text not null    -- JSON
);

-- One row for each unique key lately asked for: what callers with the same key wait for each other on, and, for keys
-- that count for a period, who holds it until when.
create table {s}.key (
  hash     uuid        primary key, -- the first half of the key's SHA-256
  job_id   uuid,
  until_at timestamptz,
  purge_at timestamptz not null
);
create index key_purge on {s}.key (purge_at);

create table {s}.session (
  id         bigint      generated always as identity primary key,
  name       text        not null,
  info       text        not null, -- JSON: what the host told about itself
  kinds      int[]       not null,
  opened_at  timestamptz not null default now(),
  beat       bigint      not null default 0,
  epoch      bigint      not null default 0, -- grows when the host looks for claims whose reply was lost: earlier ones take nothing then
  beat_at    timestamptz not null default now(),
  busy       int         not null default 0,
  draining   bool        not null default false,
  ended_at   timestamptz,
  closed     bool        not null default false, -- by its host: what it held goes back uncounted
  suspects   bool        not null default false, -- it held suspects when it was ended: they alone are charged
  scanned    bool        not null default false, -- nothing of it is left among the reserved jobs
  scan_queue int,                                -- how far the search for what it held has come
  scan_seq   bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index session_live    on {s}.session (id) where ended_at is null;
create index session_scanned on {s}.session (id) where ended_at is not null and not scanned;

-- Kinds that were ever enqueued or had a handler. Those of sessions that have not ended are known now.
create table {s}.kind (
  name    int         primary key,
  seen_at timestamptz -- when the last session that listed it was opened, or last beat before it ended; null: never
);

create sequence {s}.switch_version;
create table {s}.switch (
  what    text        not null, -- kind, queue
  name    int         not null,
  value   bool        not null, -- a kind's: on; a queue's: paused
  until   timestamptz,          -- null: no end
  version bigint      not null default nextval('{l}.switch_version'), -- drawn anew with each change
  primary key (what, name)
);

-- What lists and counts look at is kept apart from the bulk of the evidence.
create table {s}.letter (
  id              uuid        primary key,
  dead_at         timestamptz not null,
  status          smallint    not null default 0,
  class           smallint    not null,
  reason          text        not null,
  fingerprint     text collate "C" not null,
  kind            text collate "C" not null,
  queue           text collate "C" not null,
  connection      text collate "C" not null,
  job_id          uuid,
  correlation_id  text collate "C" not null,
  tags            text[]      not null,
  exception_type  text        not null,
  attempts        int         not null,
  source_message  text        not null,
  host            text        not null,
  server          text        not null,
  version         text        not null,
  enqueued_at     timestamptz,
  started_at      timestamptz,
  previous        uuid,
  -- what operators change, beside status
  redriven_by     text        not null default '',
  redriven_at     timestamptz,
  new_job_id      uuid,
  redrive_outcome text        not null default '',
  next_letter     uuid,
  message         text        not null,
  note            text        not null default ''
);
create index letter_time   on {s}.letter (dead_at, id);
create index letter_status on {s}.letter (status, dead_at, id);
create index letter_group  on {s}.letter (fingerprint, dead_at, id);
create index letter_job    on {s}.letter (job_id);

create table {s}.evidence (
  letter   uuid primary key,
  detail   text not null,
  history  text not null, -- JSON array
  envelope bytea
);

create table {s}.sink (
  name text collate "C" primary key
);

create table {s}.alert (
  id           bigint      generated always as identity primary key,
  letter       uuid        not null,
  sink         text collate "C" not null,
  key          text        not null, -- stable over repeats of the delivery
  attempt      int         not null default 0,
  token        bigint,               -- of the lease
  session      bigint,               -- that holds the lease; it ends with it
  due_at       timestamptz,          -- null once delivered; a lease moves it
  delivered_at timestamptz,
  error        text        not null default '',
  unique (letter, sink)
);
create index alert_due  on {s}.alert (sink, due_at) where due_at is not null;
create index alert_held on {s}.alert (sink)         where session is not null;
create index alert_sent on {s}.alert (sink)         where delivered_at is not null;

create table {s}.audit (
  id      bigint      generated always as identity primary key,
  at      timestamptz not null default now(),
  who     text        not null,
  door    text        not null,
  action  text        not null,
  subject text collate "C" not null,
  "from"  text        not null,
  "to"    text        not null,
  why     text        not null,
  outcome text        not null
);
create index audit_subject on {s}.audit (subject, id);
