-- A sink that no host has had for long is retired: deaths are not told to it any more, until a host registers it again.
alter table {s}.sink add column seen_at timestamptz not null default now(), add column retired_at timestamptz;
