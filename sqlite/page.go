package sqlite

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/pawljobs/pawl"
)

const (
	pageDefault = 50
	pageMost    = 1000
)

// list says which list a cursor belongs to.
type list byte

const (
	listLetters list = 'l'
	listJobs    list = 'j'
	listAudit   list = 'a'
)

// cursor is the place of the last row of a page in its list's order. It names no row number, so rows that come and go
// do not move it.
type cursor struct {
	at int64 // time; with listAudit the entry's number
	id pawl.ID
}

// next is the place right behind this one.
func (c cursor) next() cursor {
	for i := len(c.id) - 1; i >= 0; i-- {
		c.id[i]++
		if c.id[i] != 0 {
			return c
		}
	}
	c.at++
	return c
}

func (c cursor) compare(other cursor) int {
	return cmp.Or(cmp.Compare(c.at, other.at), bytes.Compare(c.id[:], other.id[:]))
}

// span is the part of a list from one place up to before another; nil bounds nothing. Each side has one bound, so that
// an index is searched for it.
type span struct{ from, to *cursor }

func (s *span) notBefore(c cursor) {
	if s.from == nil || c.compare(*s.from) > 0 {
		s.from = &c
	}
}

func (s *span) before(c cursor) {
	if s.to == nil || c.compare(*s.to) < 0 {
		s.to = &c
	}
}

const cursorSize = 1 + 8 + 16 + 4

// encode writes a cursor as its list's callers see it.
func (c cursor) encode(of list) string {
	b := make([]byte, 0, cursorSize)
	b = append(b, byte(of))
	b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	b = append(b, c.id[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor reads the After of a page; ok is false for the first page.
func decodeCursor(of list, text string) (c cursor, ok bool, err error) {
	if text == "" {
		return cursor{}, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || list(b[0]) != of ||
		crc32.ChecksumIEEE(b[:cursorSize-4]) != binary.BigEndian.Uint32(b[cursorSize-4:]) {
		return cursor{}, false, &pawl.FieldError{Field: "page", Value: text, Rule: "must be the next of a page of this list"}
	}
	c.at = int64(binary.BigEndian.Uint64(b[1:]))
	copy(c.id[:], b[9:])
	return c, true, nil
}

// pageLimit is how many rows a page may have.
func pageLimit(p pawl.Page) (int, error) {
	switch {
	case p.Limit == 0:
		return pageDefault, nil
	case p.Limit < 0 || p.Limit > pageMost:
		return 0, &pawl.FieldError{Field: "limit", Value: p.Limit, Rule: "must be from 1 to 1000"}
	}
	return p.Limit, nil
}

// cut takes the rows that a page has room for, and the cursor to go on with where there are more.
func cut[T any](rows []T, limit int, of list, place func(T) cursor) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit:limit]
	return rows, place(rows[limit-1]).encode(of)
}
