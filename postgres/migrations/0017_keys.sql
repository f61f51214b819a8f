-- Unique keys are looked up by what they are, wherever they lie: a key of random bytes costs no more than one that continues the last.
drop index {s}.job_key;
create index job_key on {s}.job using hash (ukey) where ukey is not null;

-- What callers who want the same unique key wait for each other on: one row for each 2^18th of all keys. Rows are locked where they
-- lie, in the order in which they were stored, so none is ever changed, or removed. See keyPlaces.
drop table {s}.key_lock;
create table {s}.key_lock (slot int not null);
insert into {s}.key_lock (slot) select generate_series(0, 262143);
do $$
declare
  per_page int := (current_setting('block_size')::int - 24) / 36;
begin
  if not exists (select 1 from {s}.key_lock where slot = 262143 and ctid = format('(%s,%s)', slot / per_page, slot % per_page + 1)::tid) then
    raise exception 'rows of a new table do not lie side by side on this server';
  end if;
end $$;
