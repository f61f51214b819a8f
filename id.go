package pawl

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pawljobs/pawl/internal/id"
)

// ID names a job or a dead letter: 16 bytes, shown as a UUID in lower case. The zero ID names nothing.
type ID [16]byte

// NewID returns a fresh UUIDv7. Ids are made by the client, so a caller knows the id of a job before the insert
// commits and can repeat an enqueue whose outcome it did not learn (see WithID).
func NewID() ID { return id.New() }

// ParseID reads the canonical 36 character form of an id.
func ParseID(s string) (ID, error) {
	b, err := id.Parse(s)
	if err != nil {
		return ID{}, &FieldError{Field: "id", Value: s, Rule: "must be a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057"}
	}
	return b, nil
}

// IsZero reports whether the id names nothing.
func (i ID) IsZero() bool { return i == ID{} }

// String returns the canonical form, or "" for the zero ID.
func (i ID) String() string {
	if i.IsZero() {
		return ""
	}
	return id.String(i)
}

// MarshalText writes the canonical form; the zero ID is the empty text.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (i *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*i = ID{}
		return nil
	}
	parsed, err := ParseID(string(text))
	if err != nil {
		return fmt.Errorf("read id: %w", err)
	}
	*i = parsed
	return nil
}

// LetterID is the id of the record of one death. It is a function of the connection, the job and the reservation
// under which the job died (token 0 for a death without a reservation), so recording the same death twice finds the
// first record, and the death of another reservation of the same job is another record. The form is a UUID of
// version 8 over SHA-256 (RFC 9562, section 5.8).
func LetterID(connection string, job ID, token Token) ID {
	h := sha256.New()
	h.Write([]byte(connection))
	h.Write([]byte{0})
	h.Write(job[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(token)))
	var out ID
	copy(out[:], h.Sum(nil))
	out[6] = out[6]&0x0f | 0x80
	out[8] = out[8]&0x3f | 0x80
	return out
}
