package sqlite

import (
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// code is the primary result code of an error of the driver, or 0.
func code(err error) int {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports that somebody else holds a lock.
func isBusy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

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
