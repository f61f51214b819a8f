// Package reach decides which addresses may be connected to, for what calls where somebody else says.
package reach

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Networks that are not of the public internet beside those that net/netip knows (IANA special-purpose registries,
// RFC 6890), and the translations through which IPv6 reaches IPv4 addresses that it does not show.
func specialNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"), // shared by carriers
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("64:ff9b::/96"), // NAT64
		netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("2002::/16"), // 6to4
		netip.MustParsePrefix("2001::/32"), // Teredo
		netip.MustParsePrefix("::/96"),     // IPv4-compatible
		netip.MustParsePrefix("fec0::/10"), // site-local
	}
}

// PublicOnly is a net.Dialer's Control: it sees the address that a connection is about to be made to, after every name
// was resolved, so a name that resolves differently the second time does not pass.
func PublicOnly(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("look at address %q: %w", address, err)
	}
	if !IsPublic(target.Addr()) {
		return fmt.Errorf("address %s is not a public one: private targets have to be allowed by the configuration", target.Addr())
	}
	return nil
}

// IsPublic reports whether an address is of the public internet.
func IsPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return false
	}
	for _, network := range specialNetworks() {
		if network.Contains(addr) {
			return false
		}
	}
	return true
}
