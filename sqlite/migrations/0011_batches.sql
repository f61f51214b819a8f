-- A batch, from its opening until a day after its end. The id is that of the job that follows when all of its members have ended.
create table pawl_batch (
  id         blob    primary key,
  kind       text    not null,
  queue      text    not null,
  delay      integer not null,           -- milliseconds, from the end of the last member
  members    integer not null default 0, -- that have joined
  done       integer not null default 0, -- and how those ended that have
  dead       integer not null default 0,
  removed    integer not null default 0,
  created_at integer not null,
  ended_at   integer,
  cancelled  integer not null default 0  -- nothing follows
) strict;
-- The job that follows, until it is enqueued or cancelled. It lies apart, so that counting does not write it anew.
create table pawl_batch_job (
  batch    blob primary key,
  envelope blob not null
) strict;
create index pawl_batch_created on pawl_batch (created_at, id);
create index pawl_batch_over  on pawl_batch (id)       where ended_at is null and members = done + dead + removed;
create index pawl_batch_ended on pawl_batch (ended_at) where ended_at is not null;

alter table pawl_job add column batch blob; -- of which it is a member
drop index pawl_job_care;
create index pawl_job_care on pawl_job (session)
  where session is not null and (letter is not null or unique_key is not null or turn <> 0 or batch is not null);
