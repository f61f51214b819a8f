-- An operator asked the host to end.
alter table pawl_session add column drain integer not null default 0;
