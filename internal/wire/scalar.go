package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Stamp is a time as RFC 3339 in UTC with milliseconds; the zero time is null.
type Stamp time.Time

// MarshalJSON writes it.
func (s Stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return []byte(time.Time(s).UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// UnmarshalJSON reads any RFC 3339 time, or null.
func (s *Stamp) UnmarshalJSON(raw []byte) error {
	*s = Stamp{}
	var text string
	if isNull(raw) {
		return nil
	}
	err := json.Unmarshal(raw, &text)
	if err == nil {
		var t time.Time
		if t, err = time.Parse(time.RFC3339Nano, text); err == nil {
			*s = Stamp(t.UTC())
			return nil
		}
	}
	return fmt.Errorf("%s must be a time such as \"2026-01-31T12:00:00Z\"", shown(raw))
}

// Ref is an id; the zero id is null.
type Ref pawl.ID

// MarshalJSON writes it.
func (r Ref) MarshalJSON() ([]byte, error) {
	if pawl.ID(r).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(pawl.ID(r).String())
}

// UnmarshalJSON reads a UUID, or null.
func (r *Ref) UnmarshalJSON(raw []byte) error {
	*r = Ref{}
	var text string
	if isNull(raw) {
		return nil
	}
	if json.Unmarshal(raw, &text) == nil {
		if id, err := pawl.ParseID(text); err == nil {
			*r = Ref(id)
			return nil
		}
	}
	return fmt.Errorf("%s must be a UUID such as \"01890a5d-ac96-774b-bcce-b302099a8057\"", shown(raw))
}

// Text is a string; the empty one is null.
type Text string

// MarshalJSON writes it.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return Encode(string(t))
}

// UnmarshalJSON reads a string, or null.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if isNull(raw) {
		*t = ""
		return nil
	}
	return json.Unmarshal(raw, (*string)(t))
}

func isNull(raw []byte) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// shown is the beginning of what was given.
func shown(raw []byte) string {
	if len(raw) > 60 {
		return strings.ToValidUTF8(string(raw[:60]), "") + "…"
	}
	return string(raw)
}

// Encode is one line of JSON. It leaves the characters of HTML as they are.
func Encode(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return b.Bytes(), nil
}

// List is never null.
func List[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

// Each turns a list into its JSON forms, or back.
func Each[A, B any](values []A, of func(A) B) []B {
	out := make([]B, len(values))
	for i, value := range values {
		out[i] = of(value)
	}
	return out
}

// Time is the stamp as a time.
func (s Stamp) Time() time.Time { return time.Time(s) }
