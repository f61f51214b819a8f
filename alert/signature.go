package alert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// SignatureHeader carries the signature of a webhook's request:
//
//	Pawl-Signature: t=1767225600,v1=5f0c…
//
// t is the time of signing in Unix seconds; v1 is the HMAC-SHA-256, in lower-case hex, of t, a full stop and the exact
// bytes of the body, under the configured secret.
const SignatureHeader = "Pawl-Signature"

func sign(secret, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac(secret, stamp, body))
}

func mac(secret []byte, stamp string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(stamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// VerifySignature is for receivers written in Go: it returns nil when header is the SignatureHeader of a request with
// this body, made with this secret no longer than tolerance ago (and no further ahead of this machine's clock), so that
// a request that was listened to cannot be sent again later. A tolerance of 5 minutes is usual.
func VerifySignature(secret []byte, header string, body []byte, tolerance time.Duration) error {
	if len(secret) == 0 {
		return &pawl.FieldError{Field: "secret", Value: "", Rule: "must not be empty"}
	}
	stamp, given, err := parseSignature(header)
	if err != nil {
		return fmt.Errorf("verify signature: %w", err)
	}
	if !hmac.Equal(given, mac(secret, stamp, body)) {
		return errors.New("verify signature: it does not belong to this body and secret")
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("verify signature: read its time: %w", err)
	}
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return fmt.Errorf("verify signature: it was made %s ago, and at most %s are allowed", age.Round(time.Second), tolerance)
	}
	return nil
}

func parseSignature(header string) (stamp string, signature []byte, err error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if signature, err = hex.DecodeString(value); err != nil {
				return "", nil, errors.New("v1 is not hexadecimal")
			}
		}
	}
	if stamp == "" || len(signature) == 0 {
		return "", nil, errors.New("t or v1 is missing")
	}
	return stamp, signature, nil
}
