package pawl_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

func selfish() []any {
	v := make([]any, 1)
	v[0] = v
	return v
}

type badString struct{}

func (badString) String() string { panic("no string") }

// Case 19: whatever the error is, its evidence is storable, bounded, and says where it was cut.
func TestEvidenceIsAlwaysStorable(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("ä", 5<<19)
	for name, err := range map[string]error{
		"NUL":                                  errors.New("a\x00b"),
		"invalid UTF-8":                        errors.New("a\xff\xfeb"),
		"5 MB":                                 errors.New(huge),
		"chain of 10,000":                      wrapMany(errBoom, 10_000),
		"a circle":                             circle(),
		"an Error method that panics":          evil{},
		"panic with a nil error":               &pawl.PanicError{Value: error(nil)},
		"panic with a bad String":              &pawl.PanicError{Value: badString{}},
		"panic with a bad Error":               &pawl.PanicError{Value: evil{}},
		"panic with a value that holds itself": &pawl.PanicError{Value: selfish()},
		"a huge stack":                         &pawl.PanicError{Value: "x", Stack: huge},
		"joined":                               errors.Join(errBoom, evil{}, errors.New(huge)),
	} {
		e := pawl.NewEvidence(err)
		for field, text := range map[string]string{"type": e.Type, "message": e.Message, "detail": e.Detail} {
			if text == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Errorf("%s: %s is not storable: %.60q", name, field, text)
			}
		}
		if n := utf8.RuneCountInString(e.Message); n > 4000 {
			t.Errorf("%s: the message has %d characters", name, n)
		}
		if len(e.Detail) > 64<<10 {
			t.Errorf("%s: the detail has %d bytes", name, len(e.Detail))
		}
	}
}

func TestEvidenceMarksItsCuts(t *testing.T) {
	t.Parallel()
	e := pawl.NewEvidence(errors.New(strings.Repeat("ä", 4001)))
	if utf8.RuneCountInString(e.Message) != 4000 || !strings.HasSuffix(e.Message, " … [cut from 8002 bytes]") {
		t.Errorf("the cut is not marked: …%q", e.Message[len(e.Message)-40:])
	}
	whole := strings.Repeat("ä", 4000)
	if e := pawl.NewEvidence(errors.New(whole)); e.Message != whole {
		t.Error("a message that fits was cut")
	}
}

func TestEvidenceNamesTheFirstRealError(t *testing.T) {
	t.Parallel()
	inner := &url.Error{Op: "Get", URL: "x", Err: fs.ErrNotExist}
	for _, row := range []struct {
		err  error
		want string
	}{
		{inner, "*url.Error"},
		{pawl.Permanent(fmt.Errorf("call: %w", inner)), "*url.Error"},
		{errors.Join(fmt.Errorf("%w, %w", inner, errBoom), errBoom), "*url.Error"},
		{fmt.Errorf("x: %w", errBoom), "*errors.errorString"},
		{&pawl.PanicError{Value: 1}, "*pawl.PanicError"},
	} {
		if got := pawl.NewEvidence(row.err).Type; got != row.want {
			t.Errorf("%v: got %s, want %s", row.err, got, row.want)
		}
	}
	detail := pawl.NewEvidence(pawl.Permanent(inner)).Detail
	for _, want := range []string{"*pawl.ClassifiedError: ", "*url.Error: ", "*errors.errorString: file does not exist", "classified as permanent at", "TestEvidenceNamesTheFirstRealError"} {
		if !strings.Contains(detail, want) {
			t.Errorf("the detail does not say %q:\n%s", want, detail)
		}
	}
}

func TestFingerprintGroupsWhatIsAlike(t *testing.T) {
	t.Parallel()
	same := []string{
		`send to "a@example.org": 450 try 17 at 10.0.0.1:25 (id 0188f6a2-0000-7000-8000-000000000001, 0xc000123)`,
		`send to "b@example.org":  450 try 3 at 192.168.7.20:2525 (id 0188f6a2-1111-7000-8000-0000000000ff, 0xdeadbeef)`,
	}
	first := pawl.Fingerprint("mail.v1", "*smtp.Error", same[0])
	if !strings.HasPrefix(first, "1-") {
		t.Errorf("the fingerprint %s does not begin with its version", first)
	}
	if second := pawl.Fingerprint("mail.v1", "*smtp.Error", same[1]); second != first {
		t.Errorf("alike failures differ: %s, %s", first, second)
	}
	for name, other := range map[string]string{
		"kind":    pawl.Fingerprint("mail.v2", "*smtp.Error", same[0]),
		"type":    pawl.Fingerprint("mail.v1", "*net.OpError", same[0]),
		"message": pawl.Fingerprint("mail.v1", "*smtp.Error", "refused by "+same[0]),
	} {
		if other == first {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

// Keys travel in the queries of URLs, and the errors of net/http print these.
func TestEvidenceLeavesOutQueries(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{"plain": "api_key=s3cr3t&user=7", "quoted": `api_key=s3cr3t"x`} {
		failed := &url.Error{Op: "Get", URL: "https://cdn.example/a?" + query, Err: errors.New("connection refused")}
		for _, err := range []error{failed, fmt.Errorf("fetch: %w", failed), pawl.Transient(errors.Join(failed, errors.New("later")))} {
			got := pawl.NewEvidence(err)
			if strings.Contains(got.Message+got.Detail, "s3cr3t") || !strings.Contains(got.Message, "https://cdn.example/a?…") {
				t.Errorf("%s: %q, detail %q", name, got.Message, got.Detail)
			}
		}
	}
}
