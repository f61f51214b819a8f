-- A message tells a sink of one death, or is a digest of many. Its letters are fixed before it is sent.
create table {s}.message (
  id           bigint      generated always as identity primary key,
  sink         text collate "C" not null,
  key          text        not null,
  letters      int         not null, -- how many it tells of
  since_at     timestamptz not null, -- when the first of them died
  attempt      int         not null default 0,
  token        bigint,               -- of the lease, until the outcome is recorded
  session      bigint,               -- that holds the lease; it ends with it
  due_at       timestamptz,          -- null once it has ended; a lease moves it
  delivered_at timestamptz,
  error        text        not null default ''
);

alter table {s}.alert
  add column regression bool not null default false, -- its group had been resolved when it died
  add column message bigint;                         -- null until it is decided
insert into {s}.message (sink, key, letters, since_at, attempt, token, session, due_at, delivered_at, error)
select a.sink, a.key, 1, l.dead_at, a.attempt, a.token, a.session, a.due_at, a.delivered_at, a.error
from {s}.alert a join {s}.letter l on l.id = a.letter where a.attempt > 0 order by a.id;
update {s}.alert a set message = m.id from {s}.message m where m.sink = a.sink and m.key = a.key;

alter table {s}.alert drop column key, drop column attempt, drop column token, drop column session, drop column due_at,
  drop column delivered_at, drop column error;
create index alert_fresh   on {s}.alert (sink, id) where message is null;
create index alert_message on {s}.alert (message)  where message is not null;
create index message_due  on {s}.message (sink, due_at) where due_at is not null;
create index message_held on {s}.message (sink)         where session is not null;

alter table {s}.sink
  add column window_at timestamptz not null default 'epoch', -- when the present window for storms began
  add column singles   int         not null default 0,       -- deaths with a message of their own in it
  add column storm     bool        not null default false,   -- more died than may have one
  add column delivered bigint      not null default 0;       -- deaths that it was told of
update {s}.sink set delivered = (select count(*) from {s}.message m where m.sink = name and m.delivered_at is not null);
