create table {t} (
  seq integer primary key autoincrement,
  id blob not null unique,
  status integer not null default 0, -- 0 pending, 1 claimed, 2 dispatched, 3 dead
  attempts integer not null default 0, -- claims that count
  lost integer not null default 0, -- of these, the last ones in a row that nobody was heard of after
  locked_until integer not null default 0, -- nobody claims it before; times are in Unix milliseconds
  claimed_by text,
  last_error text,
  ended_at integer, -- when it was dispatched or died; null until then
  created_at integer not null,
  run_at integer,
  delay_until integer,
  connection text not null,
  envelope blob not null
);
create index {i:pending:i} on {t} (connection, seq) where ended_at is null;
create index {i:ended:i} on {t} (ended_at) where ended_at is not null;
