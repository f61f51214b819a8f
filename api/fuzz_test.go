package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// Whatever is sent is refused by name, or read; and what was read is sent back and read as the same.
func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"a","args":{"n":3889108265204450030},"tags":["x"],"unique":{"key":"k","scope":"waiting"},"backoff_ms":[1,2]}`,
		`{"jobs":[{"envelope_base64":"UFdMAQ==","delay_ms":1},{"kind":"a","run_at":"2100-01-01T00:00:00Z"}]}`,
		`{"args":`, `[]`, `null`, `{"args":null,"Args":1}`, `{"a":1,"a":2}`, "{\"kind\":\"\xff\"}", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var in enqueuing
		if err := decodeBody(body, &in); err != nil {
			var field *pawl.FieldError
			if !errors.As(err, &field) || field.Field == "" || field.Rule == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		encoded, err := json.Marshal(in)
		if err != nil {
			t.Fatalf("what was read cannot be sent: %v", err)
		}
		var again enqueuing
		if err := decodeBody(encoded, &again); err != nil {
			t.Fatalf("what was sent cannot be read: %v: %s", err, encoded)
		}
		twice, err := json.Marshal(again)
		if err != nil || !bytes.Equal(twice, encoded) {
			t.Fatalf("read differently: %s, then %s (%v)", encoded, twice, err)
		}
	})
}

// Whatever stands in a URL is refused by name, or read.
func FuzzReadParams(f *testing.F) {
	for _, seed := range []string{"limit=3&status=dead&status=resolved", "since=2026-01-31T12:00:00Z", "a=%zz", "limit=9999999999999999999", "regression=1;2", "job_id=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		var in lettersQuery
		if err := readParams(r, &in); err != nil {
			if !errors.Is(err, pawl.ErrInvalid) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		again := httptest.NewRequest(http.MethodGet, "/", nil)
		again.URL.RawQuery = ""
		if _, after, ok := strings.Cut(writeParams("/dead", in), "?"); ok {
			again.URL.RawQuery = after
		}
		var second lettersQuery
		if err := readParams(again, &second); err != nil {
			t.Fatalf("what was sent cannot be read: %v", err)
		}
		if first, twice := writeParams("/dead", in), writeParams("/dead", second); first != twice {
			t.Fatalf("read differently: %s, then %s", first, twice)
		}
	})
}
