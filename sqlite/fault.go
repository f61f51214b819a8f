package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
	lib "modernc.org/sqlite/lib"
)

// code is the primary result code of an error of the driver, or 0. Errors of drivers other than the default one are
// known by their text, which they take from SQLite.
func code(err error) int {
	if err == nil {
		return 0
	}
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	text := err.Error()
	for _, known := range [...]struct {
		text string
		code int
	}{
		{"database is locked", lib.SQLITE_BUSY},
		{"database table is locked", lib.SQLITE_LOCKED},
		{"database or disk is full", lib.SQLITE_FULL},
		{"disk I/O error", lib.SQLITE_IOERR},
		{"attempt to write a readonly database", lib.SQLITE_READONLY},
		{"database disk image is malformed", lib.SQLITE_CORRUPT},
		{"unable to open database file", lib.SQLITE_CANTOPEN},
		{"file is not a database", lib.SQLITE_NOTADB},
		{"cannot start a transaction within a transaction", lib.SQLITE_ERROR},
	} {
		if strings.Contains(text, known.text) {
			return known.code
		}
	}
	return 0
}

// isBusy reports that somebody else holds a lock.
func isBusy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// isOver reports a rollback that found nothing to do: some errors, such as that of a full disk, have SQLite roll back by
// itself.
func isOver(err error) bool { return strings.Contains(err.Error(), "no transaction is active") }

// lockError says what to do about a write lock that did not come free.
func lockError(err error) error {
	if !isBusy(err) {
		return explain(err)
	}
	return fmt.Errorf("another connection holds the write lock of this file. If it is a transaction of the caller's own, "+
		"enqueue inside it with store.Tx(tx): a plain call would wait for that transaction to end (%w): %w", err, pawl.ErrBusy)
}

// explain says what a result code means to whoever opens a file.
func explain(err error) error {
	switch code(err) {
	case lib.SQLITE_NOTADB:
		return fmt.Errorf("not an SQLite file: %w", err)
	case lib.SQLITE_CANTOPEN:
		return fmt.Errorf("the folder is missing or may not be written: %w", err)
	}
	return err
}
