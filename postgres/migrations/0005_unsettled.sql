-- Ended attempts that the host could not record yet, as it said with its last beat.
alter table {s}.session add column unsettled int not null default 0;
