-- A sink that no host has had for long is retired: deaths are not told to it any more, until a host registers it again.
alter table pawl_sink add column seen_at    integer not null default 0; -- when a host that had it was last noted; 0: never
alter table pawl_sink add column retired_at integer;
