-- The letters of a batch's members are found by it.
alter table pawl_letter add column batch blob;
create index pawl_letter_batch on pawl_letter (batch, dead_at, id) where batch is not null;
