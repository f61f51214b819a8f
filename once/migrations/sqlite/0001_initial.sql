create table {t} (
  handler text not null,
  key text not null,
  claimed_at integer not null, -- Unix milliseconds
  primary key (handler, key)
) without rowid;
create index {i:claimed_at:i} on {t} (claimed_at);
