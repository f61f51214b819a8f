package desktest

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

func hosts(t *testing.T, open Opener) {
	d := open(t)
	info := pawl.HostInfo{
		Name: "desk-7", PID: 42, Version: "v1.2.3", Kinds: []string{"a.v1", `b"'.v1`}, Sinks: []string{"mail"},
		Servers: []pawl.ServerInfo{{Name: "io", Queues: []string{"1-critical", "2-default"}, Workers: 20}},
	}
	var sessions []pawl.SessionID
	for range 3 {
		session, err := d.OpenSession(t.Context(), info)
		d.OK("open session", err)
		sessions = append(sessions, session)
	}
	d.OK("close session", d.CloseSession(t.Context(), sessions[1]))
	_, err := d.Beat(t.Context(), sessions[2], pawl.Beat{Busy: 5, Draining: true})
	d.OK("beat", err)
	hosts, err := d.Hosts(t.Context())
	d.OK("hosts", err)
	for i := range hosts {
		if since := time.Since(hosts[i].OpenedAt); since < 0 || since > time.Minute || hosts[i].BeatAt.Before(hosts[i].OpenedAt) {
			t.Errorf("opened at %s, beat at %s", hosts[i].OpenedAt, hosts[i].BeatAt)
		}
		hosts[i].OpenedAt, hosts[i].BeatAt = time.Time{}, time.Time{}
	}
	d.Equal("hosts", hosts, []pawl.HostView{
		{HostInfo: info, Session: sessions[0]}, {HostInfo: info, Session: sessions[2], Busy: 5, Draining: true},
	})
}
