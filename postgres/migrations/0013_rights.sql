-- What needs the rights of the tables' owner is done by functions of his, so that hosts and those who enqueue need not have
-- them. Each checks for itself that what it is asked for is right, and takes nobody's names: its search path is this schema.

-- Gives a table of finished jobs the rights that others have to the table that it is made like.
create function {s}.share_day(day int) returns void language plpgsql set search_path = {s}, pg_temp as $body$
declare
  r record;
begin
  for r in
    select a.grantee, a.privilege_type as what, '' as columns from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'done'::regclass and a.grantee <> c.relowner
    union all
    select a.grantee, a.privilege_type, format('(%I)', t.attname) from pg_attribute t, aclexplode(t.attacl) a
    where t.attrelid = 'done'::regclass and not t.attisdropped
  loop
    execute format('grant %s %s on %I to %s', r.what, r.columns, 'done_' || day,
      case when r.grantee = 0 then 'public' else r.grantee::regrole::text end);
  end loop;
end $body$;

-- Makes the tables for finished jobs that will be needed within a day. Callers take turns: by the advisory lock of hosts.
create function {s}.make_days() returns void language plpgsql security definer set search_path = {s}, pg_temp as $body$
declare
  next timestamptz := now();
  day  int;
begin
  next := greatest(next, (select until_at from slot order by from_at desc limit 1));
  while next <= now() + interval '24 hours' loop
    insert into slot (from_at, until_at) values (next, next + interval '24 hours') returning n into day;
    execute format('create table %I (like done including all) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)', 'done_' || day);
    perform share_day(day);
    next := next + interval '24 hours';
  end loop;
end $body$;

-- Forgets a day whose last row is older than an age, which is at least a day. False: it is not so old, or was forgotten before.
create function {s}.retire_day(day int, age interval) returns bool language plpgsql security definer set search_path = {s}, pg_temp as $body$
begin
  update slot set retired_at = now() where n = day and retired_at is null and until_at < now()
    and (used_at is null or used_at < now() - greatest(age, interval '24 hours'));
  return found;
end $body$;

-- Drops the table of a day that was forgotten ten minutes ago. False: it was not.
create function {s}.drop_day(day int) returns bool language plpgsql security definer set search_path = {s}, pg_temp as $body$
begin
  if not exists (select from slot where n = day and retired_at < now() - interval '10 minutes') then
    return false;
  end if;
  execute format('drop table if exists %I', 'done_' || day);
  delete from slot where n = day;
  return true;
end $body$;

-- Removes jobs under ids that are among the finished ones: an id is accepted once, and who enqueues may remove nothing else.
create function {s}.take_back(ids uuid[]) returns setof uuid language plpgsql security definer set search_path = {s}, pg_temp as $body$
declare
  day int;
begin
  for day in select n from slot where retired_at is null loop
    return query execute format('delete from job j using %I d where j.id = any($1) and d.id = j.id returning j.id', 'done_' || day) using ids;
  end loop;
end $body$;

revoke execute on function {s}.share_day(int), {s}.make_days(), {s}.retire_day(int, interval), {s}.drop_day(int), {s}.take_back(uuid[]) from public;
