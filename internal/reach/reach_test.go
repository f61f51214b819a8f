package reach_test

import (
	"net/netip"
	"testing"

	"github.com/pawljobs/pawl/internal/reach"
)

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:4700:4700::1111": true, "172.32.0.1": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.255.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.0.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.127.255.255": false, "0.0.0.0": false,
		"0.1.2.3": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "192.0.0.8": false,
		"198.18.0.1": false, "::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false,
		"fdff::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::7f00:1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001:0:1::": false, "fec0::1": false,
	} {
		if got := reach.IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: public is %v", text, got)
		}
	}
}
