package builtin

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reach"
)

// Targets says what HTTP requests may reach. The zero value allows nothing.
type Targets struct {
	// Hosts are patterns: a name or an address; *.example.com for whatever is beneath it, and not itself; * for all.
	// Each goes for the scheme's own port only, unless another one, or * for any, follows behind a colon.
	Hosts []string
	// HTTP allows http as well as https.
	HTTP bool
	// Networks are private, loopback and link-local networks that may be reached. All others are refused when a
	// connection is made, whatever name led there.
	Networks []netip.Prefix
	// MaxResponse is how many bytes of a response are read. What is longer is cut off.
	MaxResponse int64
}

// pattern is one of the hosts.
type pattern struct {
	host string // lower case; "" for all
	sub  bool   // whatever is beneath it
	port string // "": the scheme's; "*": any
}

func parsePattern(text string) (pattern, error) {
	host, port := strings.ToLower(text), ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !isAddress(host) {
		host, port = host[:i], host[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); port != "*" && (err != nil || n == 0) {
			return pattern{}, badPattern(text)
		}
	}
	if host = strings.Trim(host, "[]"); host == "*" {
		return pattern{port: port}, nil
	}
	host, sub := strings.CutPrefix(host, "*.")
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil && !sub {
		host = addr.Unmap().String() // as the target's is written
	}
	if host == "" || !isAddress(host) && strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	}) {
		return pattern{}, badPattern(text)
	}
	return pattern{host: host, sub: sub, port: port}, nil
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return err == nil
}

func badPattern(text string) error {
	return &pawl.FieldError{Field: "allow", Value: text, Rule: "must be a host such as api.example.com, *.example.com or *, with or without :PORT"}
}

func (p pattern) matches(host, port, own string) bool {
	if p.port == "" && port != own || p.port != "" && p.port != "*" && p.port != port {
		return false
	}
	switch {
	case p.host == "":
		return true
	case p.sub:
		return strings.HasSuffix(host, "."+p.host)
	}
	return host == p.host
}

// targets are Targets that have been checked.
type targets struct {
	Targets
	patterns []pattern
}

// Check says what is wrong with them.
func (t Targets) Check() error {
	_, err := t.checked()
	return err
}

func (t Targets) checked() (*targets, error) {
	c := &targets{Targets: t}
	for _, text := range t.Hosts {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		c.patterns = append(c.patterns, p)
	}
	if t.MaxResponse < 0 {
		return nil, &pawl.FieldError{Field: "max response", Value: t.MaxResponse, Rule: "must not be negative"}
	}
	return c, nil
}

// allow says why a URL must not be requested; nil when it may.
func (t *targets) allow(u *url.URL) error {
	own := "443"
	switch u.Scheme {
	case "https":
	case "http":
		if own = "80"; !t.HTTP {
			return refused("%s is not https, and this host allows nothing else", u.Scheme+"://"+u.Host)
		}
	default:
		return refused("scheme %q is neither https nor http", u.Scheme)
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" {
		port = own
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	if !slices.ContainsFunc(t.patterns, func(p pattern) bool { return p.matches(host, port, own) }) {
		return refused("target %s is not among those that this host allows", net.JoinHostPort(host, port))
	}
	return nil
}

// control is a net.Dialer's: it sees the address that a connection is about to be made to, after every name was
// resolved, so a name that resolves differently the second time does not pass.
func (t *targets) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("look at address %q: %w", address, err)
	}
	addr := target.Addr().Unmap().WithZone("")
	if reach.IsPublic(addr) || slices.ContainsFunc(t.Networks, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	return refused("address %s is not a public one, and this host does not allow its network", addr)
}
