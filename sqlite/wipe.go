package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// vacuumAtOnce is the largest file, in pages, that is written anew by itself: 64 MB, which holds its lock for about a second.
const vacuumAtOnce = 16384

// othersTables counts the tables of the file's owner, where that is not Pawl: their rows may be known by numbers that a vacuum
// would change.
const othersTables = `select count(*) from sqlite_schema where type = 'table' and name not like 'pawl~_%' escape '~' and name not like 'sqlite~_%' escape '~'`

// wipe removes what earlier versions of rows have left in the file. An erase overwrites the rows themselves (secure_delete), but
// copies of them can lie in the unused space of pages and in free pages, where only a vacuum finds them, and in the write-ahead
// log. It says in which of them old bytes may still lie.
func (s *Store) wipe(ctx context.Context) string {
	db, err := openFile(s.path, s.config, false, 1)
	if err != nil {
		return fmt.Sprintf("the file and its write-ahead log (%v)", err)
	}
	var left []string
	if err := s.vacuum(ctx, db); err != nil {
		left = append(left, fmt.Sprintf("unused space of the file, until it is vacuumed (%v)", err))
	}
	if err := truncateLog(ctx, db); err != nil {
		left = append(left, fmt.Sprintf("the write-ahead log (%v)", err))
	}
	if err := db.Close(); err != nil {
		s.config.Logger.Warn("close the connection of an erase", "error", err)
	}
	return strings.Join(left, "; ")
}

// vacuum writes a file of Pawl's own anew, unless that would take long.
func (s *Store) vacuum(ctx context.Context, db *sql.DB) error {
	var pages, others int
	err := errors.Join(db.QueryRowContext(ctx, "pragma page_count").Scan(&pages), db.QueryRowContext(ctx, othersTables).Scan(&others))
	switch {
	case err != nil:
		return err
	case others > 0:
		return errors.New("it has tables of its owner's")
	case pages > vacuumAtOnce:
		return errors.New("it is large")
	}
	_, err = db.ExecContext(ctx, "vacuum")
	return explain(err)
}

// truncateLog moves what is in the write-ahead log into the file, and leaves nothing of it.
func truncateLog(ctx context.Context, db *sql.DB) error {
	var busy, frames, moved int
	err := db.QueryRowContext(ctx, "pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = errors.New("somebody reads an older state")
	}
	return err
}
