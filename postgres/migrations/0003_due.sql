-- Jobs that fall due at the same moment are taken in the order of their enqueue, by the index alone.
drop index {s}.job_due;
create index job_due on {s}.job (run_at, seq) include (queue) where run_at is not null;
