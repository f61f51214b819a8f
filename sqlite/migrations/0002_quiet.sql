-- An operator asked the host to claim no more.
alter table pawl_session add column quiet integer not null default 0;
