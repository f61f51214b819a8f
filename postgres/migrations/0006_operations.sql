-- An operation is one act on many letters. What became of its jobs is counted among its items, until it is tallied: it has
-- ended, and no job is pending.
create table {s}.operation (
  id          uuid        primary key,
  created_at  timestamptz not null default now(),
  action      text        not null,
  filter      text        not null, -- JSON
  named       bool        not null, -- its letters were named one by one
  who         text        not null,
  door        text        not null,
  why         text        not null,
  options     text        not null, -- JSON
  state       text        not null,
  probed      bool        not null default false, -- its probe has succeeded
  reason      text        not null default '',
  letters     int         not null,
  done        int         not null default 0, -- with refused: how far it has come
  refused     int         not null default 0,
  succeeded   int         not null default 0, -- this and the two below: when tallied
  died_again  int         not null default 0,
  cancelled   int         not null default 0,
  tallied     bool        not null default false,
  runner      text        not null default '',
  lease       bigint      not null default 0, -- grows with each lease
  free_at timestamptz not null default 'epoch',
  changed_at  timestamptz not null default now(),
  ended_at    timestamptz
) with (fillfactor = 50);
create index operation_time      on {s}.operation (created_at, id);
create index operation_active    on {s}.operation (created_at) where state in ('probing', 'running');
create index operation_untallied on {s}.operation (created_at) where ended_at is not null and not tallied;

-- The letters of operations, frozen, in the order in which they are dealt with.
create table {s}.operation_item (
  operation uuid     not null,
  position  int      not null,
  state     smallint not null default 0, -- 0 waiting, 1 refused, 2 done, 3 its job is on its way to another connection
  outcome   smallint not null default 0, -- of its job: 0 none, 1 pending, 2 succeeded, 3 died again, 4 cancelled
  letter    uuid     not null,
  job       uuid,
  reason    text     not null default '',
  primary key (operation, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index operation_job     on {s}.operation_item (job)       where outcome = 1;
create index operation_pending on {s}.operation_item (operation) where outcome = 1;
