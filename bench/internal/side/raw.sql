-- The least that keeps a job, hands it out once, and remembers its end: the design of Pawl's tables, without what its
-- promises need.
create sequence job_seq;
create table job (
  id uuid primary key, seq bigint not null default nextval('job_seq'), queue int not null default 1, kind int not null default 1,
  attempt int not null default 0, holder bigint, claim bigint, run_at timestamptz, enqueued_at timestamptz not null default now(),
  envelope bytea not null
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
create index job_ready on job (queue, seq) where run_at is null;
create sequence claim_seq cache 1000;
create table done (id uuid primary key, finished_at timestamptz not null, queue int, kind int, attempt int, enqueued_at timestamptz, envelope bytea)
  with (autovacuum_enabled = off);
