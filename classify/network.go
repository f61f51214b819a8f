package classify

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reply"
)

// Network knows the errors of connections. Transient: timeouts, connections that were refused, reset or cut, hosts and
// networks that are out of reach, every DNS failure, failed TLS handshakes and certificates that were not accepted
// (somebody may be replacing them). Permanent: a URL that does not parse, has no host, or has a scheme that the
// client does not speak.
func Network(err error) pawl.Class {
	switch e := err.(type) {
	case *url.Error:
		if reply.Malformed(e) {
			return pawl.ClassPermanent
		}
	case *net.DNSError:
		return pawl.ClassTransient
	case *net.OpError:
		if e.Op == "remote error" || e.Op == "local error" { // how crypto/tls wraps its alerts
			return pawl.ClassTransient
		}
	case syscall.Errno:
		if isConnectionErrno(e) {
			return pawl.ClassTransient
		}
	}
	if isTLS(err) {
		return pawl.ClassTransient
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return pawl.ClassTransient
	}
	return pawl.ClassUnknown
}

func isTLS(err error) bool {
	switch err.(type) {
	case tls.AlertError, tls.RecordHeaderError, *tls.CertificateVerificationError, *tls.ECHRejectionError,
		x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError, x509.SystemRootsError,
		x509.UnhandledCriticalExtension, x509.InsecureAlgorithmError, x509.ConstraintViolationError:
		return true
	}
	return err == http.ErrSchemeMismatch
}

func isConnectionErrno(e syscall.Errno) bool {
	switch e {
	case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
		syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.ENETRESET:
		return true
	}
	return isWinsockErrno(e)
}

// SMTPCode returns the class of a mail server's reply (RFC 5321, 4.2.1): 4yz is transient, 5yz permanent.
func SMTPCode(code int) pawl.Class {
	switch {
	case code >= 400 && code <= 499:
		return pawl.ClassTransient
	case code >= 500 && code <= 599:
		return pawl.ClassPermanent
	}
	return pawl.ClassUnknown
}

// SMTP knows the replies of net/smtp, which are *textproto.Error, and errors with methods ErrorCode() int and
// IsTemp() bool, as those of wneessen/go-mail have.
func SMTP(err error) pawl.Class {
	switch e := err.(type) {
	case *textproto.Error:
		return SMTPCode(e.Code)
	case interface {
		ErrorCode() int
		IsTemp() bool
	}:
		return SMTPCode(e.ErrorCode())
	}
	return pawl.ClassUnknown
}
