-- Ended attempts that the host could not record yet, as it said with its last beat.
alter table pawl_session add column unsettled integer not null default 0;
