-- A message tells a sink of one death, or is a digest of many. Its letters are fixed before it is sent.
create table pawl_message (
  id           integer primary key,
  sink         text    not null,
  key          text    not null,
  letters      integer not null,  -- how many it tells of
  since_at     integer not null,  -- when the first of them died
  attempt      integer not null default 0,
  token        integer,           -- of the lease, until the outcome is recorded
  session      integer,           -- that holds the lease
  due_at       integer,           -- null once it has ended; a lease moves it
  delivered_at integer,
  error        text    not null default ''
) strict;

insert into pawl_message (id, sink, key, letters, since_at, attempt, token, session, due_at, delivered_at, error)
select a.id, a.sink, a.key, 1, l.dead_at, a.attempt, a.token, a.session, a.due_at, a.delivered_at, a.error
from pawl_alert a join pawl_letter l on l.id = a.letter where a.attempt > 0;

create index pawl_message_due    on pawl_message (sink, due_at) where due_at is not null;
create index pawl_message_leased on pawl_message (session)      where session is not null;

alter table pawl_alert rename to pawl_alert_before;
drop index pawl_alert_due;
drop index pawl_alert_leased;
drop index pawl_alert_sent;

create table pawl_alert (
  id         integer primary key,
  letter     blob    not null,
  sink       text    not null,
  regression integer not null default 0, -- its group had been resolved when it died
  message    integer,                    -- null until it is decided
  unique (letter, sink)
) strict;
insert into pawl_alert (id, letter, sink, message) select id, letter, sink, case when attempt > 0 then id end from pawl_alert_before;
drop table pawl_alert_before;
create index pawl_alert_fresh   on pawl_alert (sink, message) where message is null;
create index pawl_alert_message on pawl_alert (message)       where message is not null;

alter table pawl_sink add column window_at integer not null default 0; -- when the present window for storms began
alter table pawl_sink add column singles   integer not null default 0; -- deaths with a message of their own in it
alter table pawl_sink add column storm     integer not null default 0; -- 1: more died than may have one
alter table pawl_sink add column delivered integer not null default 0; -- deaths that it was told of
update pawl_sink set delivered = (select count(*) from pawl_message m where m.sink = name and m.delivered_at is not null);
