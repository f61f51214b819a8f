-- The letters of a batch's members are found by it.
alter table {s}.letter add column batch uuid;
create index letter_batch on {s}.letter (batch, dead_at, id) where batch is not null;
