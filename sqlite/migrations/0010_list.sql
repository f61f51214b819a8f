-- The index in the order of lists has all that filters ask for but texts, so that they need not look at the letters themselves, which are large.
drop index pawl_letter_time;
create index pawl_letter_list on pawl_letter (dead_at, id, status, class, reason, kind, queue, connection, fingerprint, correlation_id, tags,
  status_at, group_resolved_at);
