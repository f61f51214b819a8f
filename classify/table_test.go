package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/wneessen/go-mail"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
)

const (
	unknown   = pawl.ClassUnknown
	transient = pawl.ClassTransient
	permanent = pawl.ClassPermanent
)

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	want := map[int]pawl.Class{
		200: unknown, 204: unknown, 301: unknown, 304: unknown,
		400: permanent, 401: permanent, 402: permanent, 403: permanent, 404: permanent, 405: permanent, 406: permanent,
		407: permanent, 409: permanent, 410: permanent, 411: permanent, 412: permanent, 413: permanent, 414: permanent,
		415: permanent, 416: permanent, 417: permanent, 418: permanent, 421: permanent, 422: permanent, 424: permanent,
		426: permanent, 428: permanent, 431: permanent, 451: permanent, 499: permanent,
		408: transient, 423: transient, 425: transient, 429: transient,
		500: transient, 502: transient, 503: transient, 504: transient, 506: transient, 507: transient, 508: transient,
		510: transient, 511: transient, 520: transient, 524: transient, 599: transient,
		501: permanent, 505: permanent,
		0: unknown, -1: unknown, 100: unknown, 600: unknown, 1000: unknown,
	}
	for status, class := range want {
		if got := classify.HTTPStatus(status); got != class {
			t.Errorf("status %d: %v, want %v", status, got, class)
		}
		if got := classify.Default()(fmt.Errorf("call: %w", cloudError(status))); got != class {
			t.Errorf("an error of status %d: %v, want %v", status, got, class)
		}
	}
}

type cloudError int

func (e cloudError) Error() string       { return "cloud" }
func (e cloudError) HTTPStatusCode() int { return int(e) }

func TestSMTPCode(t *testing.T) {
	t.Parallel()
	want := map[int]pawl.Class{
		0: unknown, 220: unknown, 250: unknown, 354: unknown, 399: unknown,
		400: transient, 421: transient, 450: transient, 451: transient, 452: transient, 454: transient, 499: transient,
		500: permanent, 530: permanent, 535: permanent, 550: permanent, 552: permanent, 554: permanent, 599: permanent,
		600: unknown,
	}
	for code, class := range want {
		if got := classify.SMTPCode(code); got != class {
			t.Errorf("code %d: %v, want %v", code, got, class)
		}
		for _, err := range []error{&textproto.Error{Code: code, Msg: "said the server"}, replyError(code)} {
			if got := classify.Default()(fmt.Errorf("send: %w", err)); got != class {
				t.Errorf("%T of code %d: %v, want %v", err, code, got, class)
			}
		}
	}
}

type replyError int

func (e replyError) Error() string  { return "reply" }
func (e replyError) ErrorCode() int { return int(e) }
func (e replyError) IsTemp() bool   { return e/100 == 4 }

// The methods that SMTP goes by are those of the mail library.
var _ interface {
	ErrorCode() int
	IsTemp() bool
} = (*mail.SendError)(nil)

func TestSQLState(t *testing.T) {
	t.Parallel()
	want := map[string]pawl.Class{
		"08000": transient, "08001": transient, "08003": transient, "08004": transient, "08006": transient, "08P01": transient,
		"40000": transient, "40001": transient, "40002": transient, "40003": transient, "40P01": transient,
		"53000": transient, "53100": transient, "53200": transient, "53300": transient, "53400": transient,
		"55P03": transient, "57014": transient,
		"57P01": transient, "57P02": transient, "57P03": transient, "57P04": transient, "57P05": transient,
		"58000": transient, "58030": transient, "58P01": transient, "58P02": transient,
		"22000": permanent, "22001": permanent, "22003": permanent, "22007": permanent, "22P02": permanent, "22P05": permanent,
		"23502": permanent, "23505": permanent, "23514": permanent, "42601": permanent,
		// not classified
		"": unknown, "2": unknown, "22": unknown, "220000": unknown, "00000": unknown, "0A000": unknown,
		"23000": unknown, "23001": unknown, "23503": unknown, "23P01": unknown,
		"25006": unknown, "28000": unknown, "28P01": unknown, "3D000": unknown, "42501": unknown, "42703": unknown, "42P01": unknown,
		"54000": unknown, "55000": unknown, "55006": unknown, "55P02": unknown, "57000": unknown, "57P06": unknown, "XX000": unknown,
	}
	for code, class := range want {
		if got := classify.SQLState(code); got != class {
			t.Errorf("%q: %v, want %v", code, got, class)
		}
		if got := classify.Default()(fmt.Errorf("insert: %w", &pgconn.PgError{Code: code})); got != class {
			t.Errorf("an error of %q: %v, want %v", code, got, class)
		}
	}
}

func TestQueryCancelled(t *testing.T) {
	t.Parallel()
	cancelled := &pgconn.PgError{Code: "57014"}
	for name, row := range map[string]struct {
		err  error
		want pawl.Class
	}{
		"a statement timeout":               {cancelled, transient},
		"our own cancel, joined":            {errors.Join(cancelled, context.Canceled), unknown},
		"our own cancel, joined before":     {errors.Join(context.Canceled, cancelled), unknown},
		"our own cancel, wrapped":           {fmt.Errorf("select: %w: %w", context.Canceled, cancelled), unknown},
		"our own deadline":                  {errors.Join(cancelled, context.DeadlineExceeded), transient},
		"our own cancel of something else":  {errors.Join(&pgconn.PgError{Code: "40001"}, context.Canceled), transient},
		"our own cancel, and bad data":      {errors.Join(cancelled, context.Canceled, &pgconn.PgError{Code: "22P02"}), permanent},
		"our own cancel, and a broken line": {errors.Join(cancelled, context.Canceled, syscall.ECONNRESET), transient},
	} {
		if got := classify.Default()(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func TestSQLiteCode(t *testing.T) {
	t.Parallel()
	named := map[int]pawl.Class{5: transient, 6: transient, 10: transient, 13: transient, 18: permanent, 19: permanent, 20: permanent}
	for code := range 32 {
		want := named[code]
		for _, extended := range []int{0, 1, 2, 8, 20} {
			if got := classify.SQLiteCode(code | extended<<8); got != want {
				t.Errorf("code %d of %d: %v, want %v", code|extended<<8, code, got, want)
			}
		}
	}
	if got := classify.SQLiteCode(101); got != unknown { // DONE
		t.Errorf("code 101: %v", got)
	}
	for _, err := range []error{otherCode{19}, &otherCode{19}} {
		if got := classify.Default()(err); got != unknown {
			t.Errorf("a Code method of another package, %T: %v", err, got)
		}
	}
}

type otherCode struct{ code int }

func (e otherCode) Error() string { return "other" }
func (e otherCode) Code() int     { return e.code }

func TestSQLServerAndMySQLNumbers(t *testing.T) {
	t.Parallel()
	azure := []int{1205, 1222, 40197, 40501, 40613, 49918, 49919, 49920, 4060, 10928, 10929, 233, 10053, 10054, 10060}
	for number := range 50_000 {
		want := unknown
		for _, known := range azure {
			if number == known {
				want = transient
			}
		}
		if got := classify.SQLServerNumber(number); got != want {
			t.Errorf("SQL Server %d: %v, want %v", number, got, want)
		}
	}
	if got := classify.Default()(fmt.Errorf("exec: %w", serverError{1205})); got != transient {
		t.Errorf("a deadlock of SQL Server: %v", got)
	}
	mysql := map[uint16]pawl.Class{1205: transient, 1213: transient, 2006: transient, 2013: transient, 1040: transient}
	for number := range uint16(5000) {
		if got := classify.MySQLNumber(number); got != mysql[number] {
			t.Errorf("MySQL %d: %v, want %v", number, got, mysql[number])
		}
	}
	own := classify.Default(classify.On(func(e *mysqlError) pawl.Class { return classify.MySQLNumber(e.Number) }))
	if got := own(fmt.Errorf("exec: %w", &mysqlError{1213})); got != transient {
		t.Errorf("a deadlock of MySQL: %v", got)
	}
	if got := classify.Default()(&mysqlError{1213}); got != unknown {
		t.Errorf("a MySQL error without an adapter: %v", got)
	}
}

type serverError struct{ number int32 }

func (e serverError) Error() string         { return "mssql" }
func (e serverError) SQLErrorNumber() int32 { return e.number }

type mysqlError struct{ Number uint16 }

func (e *mysqlError) Error() string { return "mysql" }

type timeoutError bool

func (e timeoutError) Error() string { return "slow" }
func (e timeoutError) Timeout() bool { return bool(e) }

func TestNetworkTable(t *testing.T) {
	t.Parallel()
	spaced := fmt.Sprintf("http://%s/", "a b")
	_, malformed := url.Parse(spaced)
	_, noScheme := http.NewRequest(http.MethodGet, "://x", nil)
	for name, row := range map[string]struct {
		err  error
		want pawl.Class
	}{
		"a deadline":                   {context.DeadlineExceeded, transient},
		"a cancelled context":          {context.Canceled, unknown},
		"a timeout":                    {timeoutError(true), transient},
		"no timeout":                   {timeoutError(false), unknown},
		"an I/O deadline":              {os.ErrDeadlineExceeded, transient},
		"refused":                      {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, transient},
		"reset":                        {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, transient},
		"aborted":                      {syscall.ECONNABORTED, transient},
		"broken pipe":                  {syscall.EPIPE, transient},
		"timed out":                    {syscall.ETIMEDOUT, transient},
		"no route":                     {syscall.EHOSTUNREACH, transient},
		"host down":                    {syscall.EHOSTDOWN, transient},
		"no network":                   {syscall.ENETUNREACH, transient},
		"network down":                 {syscall.ENETDOWN, transient},
		"network reset":                {syscall.ENETRESET, transient},
		"no such file":                 {syscall.ENOENT, unknown},
		"no permission":                {&net.OpError{Op: "dial", Err: syscall.EACCES}, unknown},
		"no such host":                 {&net.DNSError{IsNotFound: true}, transient},
		"a name server that times out": {&net.DNSError{IsTimeout: true}, transient},
		"a name server that fails":     {&net.DNSError{}, transient},
		"an address without a port":    {&net.OpError{Op: "dial", Err: &net.AddrError{Err: "missing port in address"}}, unknown},
		"an unknown network":           {net.UnknownNetworkError("foo"), unknown},
		"end of file":                  {io.EOF, unknown},
		"a closed connection":          {net.ErrClosed, unknown},
		"a TLS alert of theirs":        {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, transient},
		"a TLS alert of ours":          {&net.OpError{Op: "local error", Err: tls.AlertError(40)}, transient},
		"an alert":                     {tls.AlertError(40), transient},
		"no TLS at all":                {tls.RecordHeaderError{Msg: "first record"}, transient},
		"a certificate not accepted":   {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, transient},
		"an unknown authority":         {x509.UnknownAuthorityError{}, transient},
		"a wrong host":                 {x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}, transient},
		"an expired certificate":       {x509.CertificateInvalidError{Reason: x509.Expired}, transient},
		"no system roots":              {x509.SystemRootsError{}, transient},
		"a malformed URL":              {malformed, permanent},
		"a URL without a scheme":       {noScheme, permanent},
		"a call that failed":           {&url.Error{Op: "Get", Err: io.ErrUnexpectedEOF}, unknown},
		"a call that timed out":        {&url.Error{Op: "Get", Err: timeoutError(true)}, transient},
		"the words of a bad scheme":    {errors.New(`unsupported protocol scheme "x"`), unknown},
		"nil":                          {nil, unknown},
	} {
		if got := classify.Default()(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
		if row.err == nil {
			continue
		}
		if got := classify.Default()(fmt.Errorf("call: %w", errors.Join(errors.New("x"), row.err))); got != row.want {
			t.Errorf("%s, wrapped and joined: %v, want %v", name, got, row.want)
		}
	}
}
