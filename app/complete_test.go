package app

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A store that never answers keeps no shell waiting.
func TestCompletionIsBounded(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	asked := make(chan net.Conn, 9)
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			asked <- conn // and never answered
		}
	}()
	ended := make(chan string, 1)
	url := "postgres://pawl@" + silent.Addr().String() + "/jobs?sslmode=disable&connect_timeout=600"
	go func() { ended <- said(t, url, "__complete", "queue", "show", "--store", url, "") }()
	select {
	case got := <-ended:
		if strings.Contains(got, "critical") || !strings.HasSuffix(got, "status 0") {
			t.Errorf("it says %s", got)
		}
		if len(asked) == 0 {
			t.Error("it has not asked the store")
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits after a minute, not a second")
	}
}
