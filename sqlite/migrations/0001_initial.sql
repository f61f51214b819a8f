-- Times are Unix milliseconds. Ids are the 16 bytes of a UUID.

create table pawl_schema (
  version    integer primary key,
  applied_at integer not null
) strict;

-- One row a counter: numbers that never repeat.
create table pawl_counter (
  name  text primary key,
  value integer not null
) strict, without rowid;
insert into pawl_counter (name, value) values ('seq', 0), ('token', 0), ('session', 0), ('switches', 0);

-- A job has exactly one row from its enqueue to its end. seq is its place in the queue; what is put back to the front
-- moves to the band below zero (seq - 2^62). lane tells apart, within a kind, what a claim may not take as it comes:
-- +1 needs its kind's switch on, +2 is suspected of crashing its hosts.
create table pawl_job (
  seq         integer primary key,
  id          blob    not null unique,
  kind        text    not null,
  queue       text    not null,
  once        integer not null default 0,
  starts_off  integer not null default 0,
  attempt     integer not null default 0,
  crashes     integer not null default 0,
  requeues    integer not null default 0,
  started     integer not null default 0, -- token of the reservation that left the start mark
  cancel      integer not null default 0,
  session     integer,          -- null unless reserved
  token       integer,
  room        blob    not null default x'00000000000000000000', -- bytes that a claim trades for session and token, so
                                -- that the row keeps its size and is overwritten in its place
  run_at      integer,          -- null unless scheduled
  ready_at    integer not null, -- when it became, or becomes, ready
  enqueued_at integer not null,
  letter      blob,             -- dead letter it was redriven or retried from
  unique_key  text,
  progress    text,
  lane        integer not null default 0,
  envelope    blob    not null
) strict;
create index pawl_job_ready on pawl_job (queue, kind, lane) where session is null and run_at is null;
create index pawl_job_due   on pawl_job (run_at)            where run_at is not null;
create index pawl_job_held  on pawl_job (session, token)    where session is not null;
create index pawl_job_care  on pawl_job (session)           where session is not null and (letter is not null or unique_key is not null);

-- Jobs that have ended: remembered so that an id is accepted once, and kept to be looked at. No envelope when history
-- is off.
create table pawl_done (
  id          blob    not null unique,
  kind        text    not null,
  queue       text    not null,
  state       text    not null, -- done, dead, removed
  attempt     integer not null,
  enqueued_at integer not null,
  finished_at integer not null,
  letter      blob,
  envelope    blob
) strict;
create index pawl_done_finished on pawl_done (finished_at);

-- The rest is touched only by jobs that need it.
create table pawl_attempt (
  job_id blob    not null,
  n      integer not null, -- grows with each record of the job
  record text    not null, -- JSON
  primary key (job_id, n)
) strict, without rowid;

create table pawl_verdict (
  job_id blob primary key,
  letter text not null      -- JSON
) strict, without rowid;

create table pawl_key (
  key    text    primary key,
  job_id blob    not null,
  scope  integer not null,
  until  integer not null   -- 0 unless for a period
) strict, without rowid;
create index pawl_key_until on pawl_key (until) where until > 0;

create table pawl_session (
  id        integer primary key,
  name      text    not null,
  info      text    not null, -- JSON: what the host told about itself
  opened_at integer not null,
  beat      integer not null default 0,
  beat_at   integer not null,
  busy      integer not null default 0,
  draining  integer not null default 0,
  ended_at  integer,
  recover   integer not null default 0 -- it was ended dead and may hold jobs; 1: all of them, 2: its suspects alone are
                                       -- charged with its crash
) strict;
create index pawl_session_live  on pawl_session (id)       where ended_at is null;
create index pawl_session_ended on pawl_session (ended_at) where ended_at is not null;
create index pawl_session_dead  on pawl_session (id)       where recover > 0;

-- Kinds that a host has ever had a handler for. Those of sessions that have not ended are known now.
create table pawl_kind (
  kind    text    primary key,
  seen_at integer not null -- when the last session that listed it was opened, or last beat before it ended
) strict, without rowid;

create table pawl_switch (
  what  text    not null, -- kind, queue
  name  text    not null,
  value integer not null, -- a kind's: 1 on; a queue's: 1 paused
  until integer,          -- null: no end
  primary key (what, name)
) strict, without rowid;

-- What lists and counts look at is kept apart from the bulk of the evidence, and what they look at most comes first.
create table pawl_letter (
  id              blob    primary key,
  dead_at         integer not null,
  status          integer not null default 0,
  class           integer not null,
  reason          text    not null,
  fingerprint     text    not null,
  kind            text    not null,
  queue           text    not null,
  connection      text    not null,
  job_id          blob,
  correlation_id  text    not null,
  tags            text    not null, -- JSON array
  exception_type  text    not null,
  attempts        integer not null,
  source_message  text    not null,
  host            text    not null,
  server          text    not null,
  version         text    not null,
  enqueued_at     integer,
  started_at      integer,
  previous        blob,
  -- what operators change, beside status
  redriven_by     text    not null default '',
  redriven_at     integer,
  new_job_id      blob,
  redrive_outcome text    not null default '',
  next_letter     blob,
  message         text    not null,
  note            text    not null default ''
) strict, without rowid;
create index pawl_letter_time   on pawl_letter (dead_at, id);
create index pawl_letter_status on pawl_letter (status, dead_at, id);
create index pawl_letter_group  on pawl_letter (fingerprint, dead_at, id, status);
create index pawl_letter_job    on pawl_letter (job_id);

create table pawl_evidence (
  letter   blob not null unique,
  detail   text not null,
  history  text not null, -- JSON array
  envelope blob
) strict;

create table pawl_sink (
  name text primary key
) strict, without rowid;

create table pawl_alert (
  id           integer primary key,
  letter       blob    not null,
  sink         text    not null,
  key          text    not null, -- stable over repeats of the delivery
  attempt      integer not null default 0,
  token        integer,          -- of the lease
  session      integer,          -- that holds the lease
  due_at       integer,          -- null once delivered; a lease moves it
  delivered_at integer,
  error        text    not null default '',
  unique (letter, sink)
) strict;
create index pawl_alert_due  on pawl_alert (sink, due_at)  where due_at is not null;
create index pawl_alert_leased on pawl_alert (session) where session is not null;
create index pawl_alert_sent on pawl_alert (sink)          where delivered_at is not null;

create table pawl_audit (
  id      integer primary key autoincrement,
  at      integer not null,
  who     text    not null,
  door    text    not null,
  action  text    not null,
  subject text    not null,
  "from"  text    not null,
  "to"    text    not null,
  why     text    not null,
  outcome text    not null
) strict;
create index pawl_audit_subject on pawl_audit (subject, id);
