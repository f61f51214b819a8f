-- Claims: the messages to a connection from the first to the last number, waiting ones left out. What a message's status
-- says of a claim, 1, is not used any more; its attempts are claims that ended and count.
create table {l} (
  token integer primary key autoincrement,
  connection text not null,
  first integer not null,
  last integer not null,
  claimed_by text not null,
  locked_until integer not null
);
update {t} set status = 0, claimed_by = null where status = 1;
