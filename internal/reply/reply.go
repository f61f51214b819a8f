// Package reply knows what an HTTP reply says about trying again.
package reply

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Class returns what a status says. Those below 400, and numbers that are no status, say nothing.
func Class(status int) pawl.Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return pawl.ClassTransient
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return pawl.ClassPermanent
	}
	switch {
	case status >= 400 && status <= 499:
		return pawl.ClassPermanent
	case status >= 500 && status <= 599:
		return pawl.ClassTransient
	}
	return pawl.ClassUnknown
}

// RetryAfter reads the header Retry-After (RFC 9110, 10.2.3), in seconds or as a date. A date is compared with the
// reply's own Date where it has one, so that no clock but the sender's counts, and else with now. A time that has
// passed is 0; what is neither form, or stands there twice, is not ok.
func RetryAfter(header http.Header, now time.Time) (after time.Duration, ok bool) {
	values := header.Values("Retry-After")
	if len(values) != 1 {
		return 0, false
	}
	value := strings.TrimSpace(values[0])
	if isDigits(value) {
		return seconds(value), true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	return max(date.Sub(now), 0), true
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// seconds does not overflow: what is too long for a Duration is the longest one.
func seconds(digits string) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}

// Malformed recognises what net/url and net/http say of a URL that can never be called. Where err is not a *url.Error,
// it is what a transport said itself; net/http has no types for it.
func Malformed(err error) bool {
	if e, ok := err.(*url.Error); ok {
		if e == nil || e.Op == "parse" {
			return e != nil
		}
		err = e.Err
	}
	if reflect.TypeOf(err) != reflect.TypeOf(errors.New("")) {
		return false
	}
	text := err.Error()
	return strings.HasPrefix(text, `unsupported protocol scheme "`) || text == "http: no Host in request URL"
}
