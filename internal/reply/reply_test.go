package reply_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reply"
)

func TestClass(t *testing.T) {
	t.Parallel()
	transient := map[int]bool{408: true, 423: true, 425: true, 429: true}
	for status := 500; status <= 599; status++ {
		transient[status] = status != 501 && status != 505
	}
	for status := -1; status <= 1000; status++ {
		want := pawl.ClassUnknown
		switch {
		case transient[status]:
			want = pawl.ClassTransient
		case status >= 400 && status <= 599:
			want = pawl.ClassPermanent
		}
		if got := reply.Class(status); got != want {
			t.Errorf("status %d: %v, want %v", status, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const in90 = "Sun, 01 Mar 2026 12:01:30 GMT"
	for name, row := range map[string]struct {
		header http.Header
		want   time.Duration
		ok     bool
	}{
		"none":                          {http.Header{}, 0, false},
		"empty":                         {http.Header{"Retry-After": {""}}, 0, false},
		"seconds":                       {http.Header{"Retry-After": {"120"}}, 2 * time.Minute, true},
		"seconds with spaces":           {http.Header{"Retry-After": {" 120\t"}}, 2 * time.Minute, true},
		"no wait":                       {http.Header{"Retry-After": {"0"}}, 0, true},
		"negative":                      {http.Header{"Retry-After": {"-1"}}, 0, false},
		"a sign":                        {http.Header{"Retry-After": {"+1"}}, 0, false},
		"a fraction":                    {http.Header{"Retry-After": {"1.5"}}, 0, false},
		"other digits":                  {http.Header{"Retry-After": {"\u0663"}}, 0, false},
		"too long for a duration":       {http.Header{"Retry-After": {"9223372037"}}, math.MaxInt64, true},
		"too long for an integer":       {http.Header{"Retry-After": {"99999999999999999999999"}}, math.MaxInt64, true},
		"a date, no Date":               {http.Header{"Retry-After": {in90}}, 90 * time.Second, true},
		"a date, a Date of a slow hour": {http.Header{"Retry-After": {in90}, "Date": {"Sun, 01 Mar 2026 12:01:00 GMT"}}, 30 * time.Second, true},
		"a date, a damaged Date":        {http.Header{"Retry-After": {in90}, "Date": {"now"}}, 90 * time.Second, true},
		"a date of RFC 850":             {http.Header{"Retry-After": {"Sunday, 01-Mar-26 12:01:30 GMT"}}, 90 * time.Second, true},
		"a date of asctime":             {http.Header{"Retry-After": {"Sun Mar  1 12:01:30 2026"}}, 90 * time.Second, true},
		"a date that has passed":        {http.Header{"Retry-After": {"Sun, 01 Mar 2026 11:00:00 GMT"}}, 0, true},
		"a date far away":               {http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, math.MaxInt64, true},
		"words":                         {http.Header{"Retry-After": {"soon"}}, 0, false},
		"two of them":                   {http.Header{"Retry-After": {"1", "2"}}, 0, false},
	} {
		got, ok := reply.RetryAfter(row.header, now)
		if got != row.want || ok != row.ok {
			t.Errorf("%s: %v %v, want %v %v", name, got, ok, row.want, row.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "Sun, 01 Mar 2026 12:01:30 GMT", "", "-1", "99999999999999999999"} {
		f.Add(seed, "Sun, 01 Mar 2026 12:00:00 GMT")
		f.Add(seed, "")
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		after, ok := reply.RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if after < 0 || !ok && after != 0 {
			t.Errorf("%q at %q: %v %v", value, date, after, ok)
		}
	})
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	_, parse := url.Parse(strings.Repeat("%", 2))
	_, scheme := http.Get("gopher://x/y")
	_, host := http.Get("http:///x")
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"a URL that does not parse":      {parse, true},
		"an unknown scheme":              {scheme, true},
		"what the transport says itself": {errors.Unwrap(scheme), true},
		"no host":                        {host, true},
		"another error of a call":        {&url.Error{Op: "Get", Err: io.EOF}, false},
		"the words in another type":      {&url.Error{Op: "Get", Err: worded(`unsupported protocol scheme "x"`)}, false},
		"a nil pointer":                  {(*url.Error)(nil), false},
		"nothing inside":                 {&url.Error{Op: "Get"}, false},
		"nil":                            {nil, false},
	} {
		if got := reply.Malformed(row.err); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type worded string

func (w worded) Error() string { return string(w) }
