-- An operator asked the host to end.
alter table {s}.session add column drain bool not null default false;
