-- A job that has an ordering key, or is held to a limit of its kind, stands in line: it has a row here from its enqueue
-- until somebody has seen its end. stage is the first gate that it has not passed: 0 its ordering key, 1 its limit key, 2
-- its kind; 3 none, it is through. What is not through is parked: its job's run_at is infinity, unless it is delayed.
create table {s}.turn (
  job_id  uuid     primary key,
  place   bigint   not null, -- in its line
  okey    uuid,              -- half of the SHA-256 of its ordering key; null without one
  lkey    uuid,              -- the same of its kind and its limit key
  kind    int,               -- null unless it is held to the limit of its kind
  stage   smallint not null,
  pending bool     not null  -- before stage 3: it stands at the gate; false: its time has not come. At 3: its start is still
                             -- to be counted by the rate
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index turn_order on {s}.turn (okey, stage, place)          where okey is not null;
create index turn_key   on {s}.turn (lkey, stage, pending, place) where lkey is not null;
create index turn_kind  on {s}.turn (kind, stage, pending, place) where kind is not null;

-- Something has happened to a job that stands in line, or a line is to be looked at. Whoever gives turns takes the rows
-- away.
create table {s}.arrival (
  n      bigint generated always as identity primary key,
  job_id uuid,
  okey   uuid,
  lkey   uuid,
  kind   int,
  keys   bool not null default true, -- the job may have keys that are not named here
  alone  bool not null default false -- whoever wrote it gives no turns afterwards: it was part of a caller's transaction
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index arrival_alone on {s}.arrival (n) where alone;

-- What kinds are held to: what they state (source 0), and what an operator has set in its place (1).
create table {s}.kind_limit (
  kind   int      not null,
  source smallint not null,
  value  text     not null, -- JSON
  primary key (kind, source)
);

create table {s}.rate (
  kind       int              primary key,
  tokens     double precision not null,
  counted_at timestamptz      not null, -- when there were so many
  next_at    timestamptz                -- when the next job is to be let through; null: when another has started
);
