-- An operation is one act on many letters. Its counts are kept as they change.
create table pawl_operation (
  id          blob    primary key,
  created_at  integer not null,
  action      text    not null,
  filter      text    not null, -- JSON
  named       integer not null, -- its letters were named one by one
  who         text    not null,
  door        text    not null,
  why         text    not null,
  options     text    not null, -- JSON
  state       text    not null,
  probed      integer not null default 0, -- 1: its probe has succeeded
  reason      text    not null default '',
  letters     integer not null,
  done        integer not null default 0, -- with refused: how far it has come
  refused     integer not null default 0,
  pending     integer not null default 0,
  succeeded   integer not null default 0,
  died_again  integer not null default 0,
  cancelled   integer not null default 0,
  runner      text    not null default '',
  lease       integer not null default 0, -- grows with each lease
  free_at integer not null default 0,
  changed_at  integer not null,
  ended_at    integer
) strict, without rowid;
create index pawl_operation_time   on pawl_operation (created_at, id);
create index pawl_operation_active on pawl_operation (created_at) where state in ('probing', 'running');

-- The letters of operations, frozen, in the order in which they are dealt with.
create table pawl_operation_item (
  operation blob    not null,
  position  integer not null,
  letter    blob    not null,
  state     integer not null default 0, -- 0 waiting, 1 refused, 2 done, 3 its job is on its way to another connection
  outcome   integer not null default 0, -- of its job: 0 none, 1 pending, 2 succeeded, 3 died again, 4 cancelled
  job       blob,
  reason    text    not null default '',
  primary key (operation, position)
) strict, without rowid;
create index pawl_operation_job on pawl_operation_item (job) where outcome = 1;
