create table {t} (
  handler text collate "C" not null,
  key text collate "C" not null,
  claimed_at timestamptz not null default clock_timestamp(),
  primary key (handler, key)
);
create index {i:claimed_at:i} on {t} (claimed_at);
