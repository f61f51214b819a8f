-- Since when a letter has its status (0, from an earlier release: since its death); when its group had been resolved before it died, if it had; when its args were erased.
alter table pawl_letter add column status_at integer not null default 0;
alter table pawl_letter add column group_resolved_at integer;
alter table pawl_letter add column erased_at integer;

update pawl_letter set status_at = coalesce((select max(a.at) from pawl_audit a
  where a.subject = lower(substr(hex(pawl_letter.id), 1, 8) || '-' || substr(hex(pawl_letter.id), 9, 4) || '-' || substr(hex(pawl_letter.id), 13, 4)
    || '-' || substr(hex(pawl_letter.id), 17, 4) || '-' || substr(hex(pawl_letter.id), 21))
  and a."from" <> a."to"), dead_at);

create index pawl_letter_closed on pawl_letter (status_at) where status in (2, 3);
-- Letters that an operation still has to deal with are not pruned.
create index pawl_operation_needs on pawl_operation_item (letter) where state in (0, 3);
