-- Operators list batches that are open, and the members that keep one open.
create index pawl_batch_open on pawl_batch (created_at, id) where ended_at is null;
create index pawl_job_batch  on pawl_job (batch, id)        where batch is not null;
