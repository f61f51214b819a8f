create table {l} (
  token bigint generated always as identity primary key,
  connection text collate "C" not null,
  first bigint not null,
  last bigint not null,
  claimed_by text not null,
  locked_until timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table {l} is 'claims: the messages to a connection from the first to the last number, waiting ones left out';
alter table {t} drop column claimed_by;
alter table {t} set (fillfactor = 70);
update {t} set status = 0 where status = 1;
comment on column {t}.status is '0 pending, also while it is claimed, 2 dispatched, 3 dead';
comment on column {t}.attempts is 'claims that ended and count';
comment on column {t}.locked_until is 'it waits until then, after a claim that has failed';
