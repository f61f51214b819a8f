// Package page divides lists: how a cursor names a place in a list, and how a page is cut from what was read.
package page

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/pawljobs/pawl"
)

const (
	defaultLimit = 50
	mostLimit    = 1000
)

// List says which list a cursor belongs to.
type List byte

// The lists.
const (
	Letters    List = 'l'
	Jobs       List = 'j'
	Audit      List = 'a'
	Operations List = 'o'
	Items      List = 'i' // of an operation
	Schedules  List = 's' // its cursors are names
	Batches    List = 'b'
	Members    List = 'm' // of a batch
)

// Cursor is the place of the last row of a page in its list's order. It names no row number, so rows that come and go
// do not move it.
type Cursor struct {
	At int64 // time, in the unit that the store keeps; with Audit the entry's number, with Items the position
	ID pawl.ID
}

// next is the place right behind this one.
func (c Cursor) next() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]++
		if c.ID[i] != 0 {
			return c
		}
	}
	c.At++
	return c
}

func (c Cursor) compare(other Cursor) int {
	return cmp.Or(cmp.Compare(c.At, other.At), bytes.Compare(c.ID[:], other.ID[:]))
}

// Span is the part of a list from one place up to before another; nil bounds nothing. Each side has one bound, so that
// an index is searched for it.
type Span struct{ From, To *Cursor }

// NotBefore leaves out what lies before c.
func (s *Span) NotBefore(c Cursor) {
	if s.From == nil || c.compare(*s.From) > 0 {
		s.From = &c
	}
}

// Behind leaves out c and what lies before it.
func (s *Span) Behind(c Cursor) { s.NotBefore(c.next()) }

// Before leaves out c and what lies behind it.
func (s *Span) Before(c Cursor) {
	if s.To == nil || c.compare(*s.To) < 0 {
		s.To = &c
	}
}

const cursorSize = 1 + 8 + 16 + 4

// Encode writes a cursor as its list's callers see it.
func (c Cursor) Encode(of List) string {
	b := make([]byte, 0, cursorSize)
	b = append(b, byte(of))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At))
	b = append(b, c.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// Decode reads the After of a page; ok is false for the first page.
func Decode(of List, text string) (c Cursor, ok bool, err error) {
	if text == "" {
		return Cursor{}, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorSize || List(b[0]) != of ||
		crc32.ChecksumIEEE(b[:cursorSize-4]) != binary.BigEndian.Uint32(b[cursorSize-4:]) {
		return Cursor{}, false, &pawl.FieldError{Field: "page", Value: text, Rule: "must be the next of a page of this list"}
	}
	c.At = int64(binary.BigEndian.Uint64(b[1:]))
	copy(c.ID[:], b[9:])
	return c, true, nil
}

// Limit is how many rows a page may have.
func Limit(p pawl.Page) (int, error) {
	switch {
	case p.Limit == 0:
		return defaultLimit, nil
	case p.Limit < 0 || p.Limit > mostLimit:
		return 0, &pawl.FieldError{Field: "limit", Value: p.Limit, Rule: "must be from 1 to 1000"}
	}
	return p.Limit, nil
}

// Cut takes the rows that a page has room for, and the cursor to go on with where there are more.
func Cut[T any](rows []T, limit int, of List, place func(T) Cursor) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit:limit]
	return rows, place(rows[limit-1]).Encode(of)
}

// EncodeName writes the cursor of a list in the order of names.
func EncodeName(of List, name string) string {
	b := append([]byte{byte(of)}, name...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeName reads the After of a page of such a list; "" is the first page.
func DecodeName(of List, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	end := len(b) - 4
	if err != nil || end < 1 || List(b[0]) != of || crc32.ChecksumIEEE(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return "", &pawl.FieldError{Field: "page", Value: text, Rule: "must be the next of a page of this list"}
	}
	return string(b[1:end]), nil
}
