-- How far the search for what a session held has come among jobs that were claimed where they stood in the schedule,
-- which comes after that among the others; null: not begun.
alter table {s}.session add column scan_at timestamptz;
