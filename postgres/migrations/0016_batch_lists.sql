-- Operators list batches that are open, and the members that keep one open.
create index batch_open on {s}.batch (created_at, id) where ended_at is null;
create index job_batch  on {s}.job (batch, id)        where batch is not null;
