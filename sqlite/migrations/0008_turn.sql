-- A job that has an ordering key, or is held to a limit of its kind, stands in line: it has a row here from its enqueue
-- to its end. stage is the first gate that it has not passed: 0 its ordering key, 1 its limit key, 2 its kind; 3 none, it
-- is through. What is not through is parked: its job's run_at is the last moment there is (2^63 - 1), unless it is delayed.
create table pawl_turn (
  job_id  blob    primary key,
  place   integer not null, -- in its line
  okey    blob,             -- half of the SHA-256 of its ordering key; null without one
  lkey    blob,             -- the same of its kind and its limit key
  kind    text,             -- null unless it is held to the limit of its kind
  stage   integer not null,
  pending integer not null  -- before stage 3: 1, it stands at the gate; 0, its time has not come. At 3: 1, its start is
                            -- still to be counted by the rate
) strict, without rowid;
create index pawl_turn_order on pawl_turn (okey, stage, place)          where okey is not null;
create index pawl_turn_key   on pawl_turn (lkey, stage, pending, place) where lkey is not null;
create index pawl_turn_kind  on pawl_turn (kind, stage, pending, place) where kind is not null;

-- What kinds are held to: what they state (source 0), and what an operator has set in its place (1).
create table pawl_limit (
  kind   text    not null,
  source integer not null,
  value  text    not null, -- JSON
  primary key (kind, source)
) strict, without rowid;

create table pawl_rate (
  kind       text    primary key,
  tokens     real    not null,
  counted_at integer not null, -- when there were so many
  next_at    integer           -- when the next job is to be let through; null: when another has started
) strict, without rowid;
create index pawl_rate_next on pawl_rate (next_at) where next_at is not null;

alter table pawl_job add column turn integer not null default 0; -- 1: it has a row in pawl_turn; 2: with its kind in it
drop index pawl_job_care;
create index pawl_job_care on pawl_job (session) where session is not null and (letter is not null or unique_key is not null or turn <> 0);
