-- Since when a letter has its status; when its group had been resolved before it died, if it had; when its args were erased.
alter table {s}.letter
  add column status_at timestamptz not null default now(),
  add column group_resolved_at timestamptz,
  add column erased_at timestamptz;

update {s}.letter l set status_at = coalesce((select max(a.at) from {s}.audit a where a.subject = l.id::text and a."from" <> a."to"), l.dead_at);

create index letter_closed on {s}.letter (status_at) where status in (2, 3);
-- Letters that an operation still has to deal with are not pruned.
create index operation_needs on {s}.operation_item (letter) where state in (0, 3);
