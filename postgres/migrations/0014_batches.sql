-- A batch, from its opening until a day after its end, with the job that follows when all of its members have ended. That
-- job's id is the batch's.
create table {s}.batch (
  id         uuid        primary key,
  kind       int         not null,
  queue      int         not null,
  delay      bigint      not null,           -- microseconds, from the end of the last member
  members    bigint      not null default 0, -- that have joined, as far as it was counted
  done       bigint      not null default 0, -- and how those ended that have
  dead       bigint      not null default 0,
  removed    bigint      not null default 0,
  created_at timestamptz not null default now(),
  ended_at   timestamptz,
  cancelled  bool        not null default false, -- nothing follows
  envelope   bytea                           -- of the job, until it is enqueued or cancelled
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
alter table {s}.batch alter column envelope set storage external;
create index batch_created on {s}.batch (created_at, id);
create index batch_ended on {s}.batch (ended_at) where ended_at is not null;

-- Members have joined or ended. Whoever counts takes the rows away; zeros say that the batch is to be looked at, and held that
-- somebody was adding to it the last time.
create table {s}.tally (
  n       bigint generated always as identity primary key,
  batch   uuid   not null,
  members bigint not null default 0,
  done    bigint not null default 0,
  dead    bigint not null default 0,
  removed bigint not null default 0,
  held    bool   not null default false
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index tally_batch on {s}.tally (batch);

alter table {s}.job add column batch uuid; -- of which it is a member
