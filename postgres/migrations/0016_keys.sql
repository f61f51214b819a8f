-- A key that is held by a job stands in that job's row, whatever its scope, and in one row only: the index keeps others out, and has
-- them wait for whoever has not committed. Claims change nothing of that. A key that came free while its job goes on passes to
-- whoever asks for it next, by yield_keys, and does not come back. Flag 512 of a job: its key counts for a period.
drop index {s}.job_key;

-- ukey is another digest from now on: see digests in keys.go. The key is field 17 of the envelope. What cannot be read never runs.
create function {s}.key_digest(envelope bytea) returns uuid language plpgsql immutable set search_path = pg_catalog, pg_temp as $body$
declare
  at    int := 4;
  field int;
  size  int;
  shift int;
  byte  int;
  key   bytea;
begin
  while at < length(envelope) - 4 loop
    field := get_byte(envelope, at);
    size := 0;
    shift := 0;
    loop
      at := at + 1;
      byte := get_byte(envelope, at);
      size := size | ((byte & 127) << shift);
      shift := shift + 7;
      exit when byte < 128;
    end loop;
    at := at + 1;
    if size < 0 then
      return null;
    elsif field = 17 then
      key := substr(envelope, at + 1, size);
      return encode(substr(sha256(substr(key, 1, greatest(length(key) - 4, 0))), 1, 4)
        || substr(substr(key, greatest(length(key) - 3, 1)) || '\x00000000', 1, 4) || substr(sha256(key), 1, 8), 'hex')::uuid;
    end if;
    at := at + size;
  end loop;
  return null;
exception when data_exception then
  return null;
end $body$;
update {s}.job j set ukey = case k.n when 1 then {s}.key_digest(j.envelope) end from (
  select id, row_number() over (partition by ukey order by flags & 16 <> 0 and holder is not null, enqueued_at desc, id desc) as n
  from {s}.job where ukey is not null
) k where j.id = k.id;
drop function {s}.key_digest(bytea);
create unique index job_key on {s}.job (ukey) where ukey is not null;
drop table {s}.key_lock;

-- Takes keys from jobs that hold them no more: those that run, where the key counts while they wait, and those whose period is over.
create function {s}.yield_keys(places uuid[], hashes uuid[]) returns void language sql security definer set search_path = {s}, pg_temp as $body$
  update job set ukey = null where id in (
    select j.id from job j join unnest(places, hashes) u (place, hash) on j.ukey = u.place
    where j.flags & 16 <> 0 and j.holder is not null or j.flags & 512 <> 0 and not exists (
      select 1 from key k where k.hash = u.hash and k.job_id = j.id and k.until_at > now())
    order by j.id for update of j)
$body$;

-- Removes jobs that were stored beside a period which had begun before and whose own job has ended: nothing but the row of the period
-- says so. died has for each the job that it follows, whose period is its own. Both digests of a key have 8 bytes in common, so that
-- nobody can ask for the removal of another job.
create function {s}.take_back_kept(ids uuid[], died uuid[], hashes uuid[]) returns setof uuid language sql security definer set search_path = {s}, pg_temp as $body$
  delete from job j using unnest(ids, died, hashes) u (id, died, hash), key k
  where j.id = u.id and k.hash = u.hash and substr(uuid_send(j.ukey), 9) = substr(uuid_send(u.hash), 1, 8)
    and k.until_at > now() and k.job_id <> j.id and k.job_id is distinct from u.died
  returning j.id
$body$;

revoke execute on function {s}.yield_keys(uuid[], uuid[]), {s}.take_back_kept(uuid[], uuid[], uuid[]) from public;
