create table {t} (
  seq bigint generated always as identity,
  id uuid primary key,
  status smallint not null default 0,
  attempts int not null default 0,
  lost int not null default 0,
  locked_until timestamptz not null default '-infinity',
  claimed_by text,
  last_error text,
  ended_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  run_at timestamptz,
  delay_until timestamptz,
  connection text collate "C" not null,
  envelope bytea not null
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
create index {i:pending:i} on {t} (connection, seq) where ended_at is null;
create index {i:ended:i} on {t} (ended_at) where ended_at is not null;
comment on column {t}.status is '0 pending, 1 claimed, 2 dispatched, 3 dead';
comment on column {t}.attempts is 'claims that count';
comment on column {t}.lost is 'of these, the last ones in a row that nobody was heard of after';
comment on column {t}.locked_until is 'nobody claims it before';
comment on column {t}.ended_at is 'when it was dispatched or died; null until then';
