-- Recurring jobs. What a tick needs is in the row, so that the tick is taken by one statement on it.
create table pawl_schedule (
  id          integer primary key,
  name        text    not null unique,
  kind        text    not null,
  says        text    not null,           -- JSON: when, and how its jobs are run
  args        blob    not null,
  from_at     integer,
  until_at    integer,
  declared    integer not null,           -- by code; 0: an operator's
  fingerprint text    not null,           -- of the declaration
  seen        text    not null,           -- JSON array: the fingerprints of all declarations that it had
  removed     integer not null,           -- by a declaration, which the row goes on to remember
  paused      integer not null,
  created_at  integer not null,
  changed_at  integer not null,
  next_at     integer,                    -- the next tick; null: there is none, or it is paused
  due_at      integer,                    -- when the next tick is acted on
  last_at     integer,                    -- the latest tick that got a job
  last_job    blob,
  success_at  integer,                    -- when a job of it that succeeded last ended
  fired       integer not null default 0,
  missed      integer not null default 0,
  missed_at   integer,
  skipped     integer not null default 0,
  skipped_at  integer,
  problem     text    not null default ''
) strict;
create index pawl_schedule_due  on pawl_schedule (due_at) where due_at is not null;
create index pawl_schedule_kind on pawl_schedule (kind, name);

-- The latest jobs of each schedule.
create table pawl_run (
  id       integer primary key,
  schedule integer not null,
  tick_at  integer not null, -- by hand: when
  manual   integer not null,
  job_id   blob    not null,
  state    text    not null default '', -- what it has ended as; '' as long as that is not known
  ended_at integer,
  check_at integer           -- when to look what became of it; null: it has ended
) strict;
create index pawl_run_schedule on pawl_run (schedule, id);
create index pawl_run_job      on pawl_run (job_id);
create index pawl_run_check    on pawl_run (check_at) where check_at is not null;
