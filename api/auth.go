package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Failed authentications of one address in a window, from which on it is told to wait. A token is never kept out by
// them: guessing one of 256 bits is hopeless, and nobody can lock a client out by failing in its place.
const (
	failWindow = time.Minute
	failLimit  = 10
	failPlaces = 4096 // addresses that are remembered; all others share one count
)

// authenticate finds the token that a request shows, comparing with every one in constant time.
func (h *Handler) authenticate(r *http.Request) (Token, bool) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return Token{}, false
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	var found Token
	ok := false
	for _, token := range *h.tokens.Load() {
		if subtle.ConstantTimeCompare(hash[:], token.Hash[:]) == 1 {
			found, ok = token, true
		}
	}
	return found, ok
}

// failures counts failed authentications by address.
type failures struct {
	mu     sync.Mutex
	counts map[string]int
	began  time.Time
}

// add counts one, and says how many there have been in this window and how long it still lasts.
func (f *failures) add(address string, now time.Time) (count int, left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil || now.Sub(f.began) >= failWindow {
		f.counts, f.began = map[string]int{}, now
	}
	if _, known := f.counts[address]; !known && len(f.counts) >= failPlaces {
		address = ""
	}
	f.counts[address]++
	return f.counts[address], failWindow - now.Sub(f.began)
}

// refuseStranger answers a request without a valid token. The log does not show what it had in its place, and is not
// filled by one who tries many.
func (h *Handler) refuseStranger(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	count, left := h.failures.add(address, time.Now())
	if count <= failLimit {
		h.log.Warn("api: no valid token", "address", address, "method", r.Method, "path", r.URL.Path)
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
		h.refuse(w, r, &Error{Status: http.StatusUnauthorized, Code: codeUnauthorized, Detail: "the request has no valid token: Authorization: Bearer TOKEN"})
		return
	}
	if count == failLimit+1 {
		h.log.Warn("api: too many requests without a valid token; more of this address are not logged for a minute", "address", address)
	}
	h.refuse(w, r, &Error{Status: http.StatusTooManyRequests, Code: codeThrottled, Detail: "too many requests without a valid token", after: left})
}
