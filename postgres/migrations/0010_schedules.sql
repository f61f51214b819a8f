-- Recurring jobs. What a tick needs is in the row, so that the tick is taken by one statement on it.
create table {s}.schedule (
  id          bigint generated always as identity primary key,
  name        text collate "C" not null unique,
  kind        text collate "C" not null,
  says        text        not null,           -- JSON: when, and how its jobs are run
  args        bytea       not null,
  from_at     timestamptz,
  until_at    timestamptz,
  declared    bool        not null,           -- by code; else an operator's
  fingerprint text        not null,           -- of the declaration
  seen        text        not null,           -- JSON array: the fingerprints of all declarations that it had
  removed     bool        not null,           -- by a declaration, which the row goes on to remember
  paused      bool        not null,
  created_at  timestamptz not null,
  changed_at  timestamptz not null,
  next_at     timestamptz,                    -- the next tick; null: there is none, or it is paused
  due_at      timestamptz,                    -- when the next tick is acted on
  last_at     timestamptz,                    -- the latest tick that got a job
  last_job    uuid,
  success_at  timestamptz,                    -- when a job of it that succeeded last ended
  fired       bigint      not null default 0,
  missed      bigint      not null default 0,
  missed_at   timestamptz,
  skipped     bigint      not null default 0,
  skipped_at  timestamptz,
  problem     text        not null default ''
) with (fillfactor = 70);
create index schedule_due  on {s}.schedule (due_at) where due_at is not null;
create index schedule_kind on {s}.schedule (kind, name);

-- The latest jobs of each schedule.
create table {s}.run (
  id       bigint      generated always as identity primary key,
  schedule bigint      not null,
  tick_at  timestamptz not null, -- by hand: when
  manual   bool        not null,
  job_id   uuid        not null,
  state    text        not null default '', -- what it has ended as; '' as long as that is not known
  ended_at timestamptz,
  check_at timestamptz           -- when to look what became of it; null: it has ended
);
create index run_schedule on {s}.run (schedule, id);
create index run_job      on {s}.run (job_id);
create index run_check    on {s}.run (check_at) where check_at is not null;
