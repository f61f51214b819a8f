-- An operator asked the host to claim no more.
alter table {s}.session add column quiet bool not null default false;
