-- A key that counts while its job waits may have several jobs: one that runs, and may wait again, and those that came meanwhile.
drop index pawl_key_until;
alter table pawl_key rename to pawl_key_before;
create table pawl_key (
  key    text    not null,
  job_id blob    not null,
  scope  integer not null,
  until  integer not null,  -- 0 unless for a period
  primary key (key, job_id)
) strict, without rowid;
insert into pawl_key (key, job_id, scope, until) select key, job_id, scope, until from pawl_key_before;
drop table pawl_key_before;
create index pawl_key_until on pawl_key (until) where until > 0;
