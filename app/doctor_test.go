package app

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/resilience"
	"github.com/pawljobs/pawl/sqlite"
)

func (d *doctor) found(check string) (f pawl.Finding) {
	for _, f := range d.findings {
		if f.Check == check {
			return f
		}
	}
	return f
}

// A kind whose jobs end before a call is over that their handlers may make.
func TestDoctorComparesTimeouts(t *testing.T) {
	t.Parallel()
	settings, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	cdn, err := resilience.New("cdn", resilience.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := pawl.NewMux()
	handle := func(name string, timeout time.Duration) {
		pawl.Handle(mux, pawl.NewKind[struct{}](name, pawl.Policy{Timeout: timeout}), func(context.Context, struct{}) error { return nil })
	}
	handle("a.default.v1", 0)
	handle("b.long.v1", 5*time.Minute)
	d := &doctor{settings: settings, program: &program{mux: mux, options: Options{Downstreams: []*resilience.Downstream{cdn}}}}
	d.ladders()
	if f := d.found("ladder"); f.Text != "" {
		t.Errorf("of kinds that have the time it says %q", f.Text)
	}
	handle("c.short.v1", 30*time.Second)
	d.ladders()
	if f, want := d.found("ladder"), "downstream cdn is made for jobs of 4m, and these have less: c.short.v1 (30s)"; f.Text != want || f.Grade != pawl.GradeRisk {
		t.Errorf("%s: %q, want %q", f.Grade, f.Text, want)
	}
}

// A host that starts does not warn of what it is about to serve; who asks otherwise is told.
func TestDoctorAtTheStart(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := pawl.NewKind[int]("a.v1", pawl.Policy{}).Enqueue(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	for starting, want := range map[bool]pawl.Grade{true: pawl.GradeFine, false: pawl.GradeRisk} {
		d := &doctor{program: &program{mux: pawl.NewMux(), name: "pawl"}}
		if err := d.standing(t.Context(), s, starting); err != nil {
			t.Fatal(err)
		}
		if got := d.found(string(ops.NoHost)).Grade; (got == pawl.GradeRisk) != (want == pawl.GradeRisk) {
			t.Errorf("starting %t: no-host is %q", starting, got)
		}
		if d.found(string(ops.LogOnly)).Text == "" {
			t.Errorf("starting %t: it does not say that deaths alert nobody", starting)
		}
	}
}

func TestDoctorTellsVersionsApart(t *testing.T) {
	t.Parallel()
	host := func(name, version string) pawl.HostView {
		return pawl.HostView{HostInfo: pawl.HostInfo{Name: name, Version: version}, BeatAt: time.Now()}
	}
	gone := host("d", "v0")
	gone.BeatAt = time.Now().Add(-time.Hour)
	d := &doctor{}
	d.versions([]pawl.HostView{host("a", "v1"), host("b", "v1"), gone})
	if f := d.found("versions"); f.Grade != pawl.GradeFine || f.Text != "2 hosts live" {
		t.Errorf("of one version it says %s: %s", f.Grade, f.Text)
	}
	d = &doctor{}
	d.versions([]pawl.HostView{host("a", "v1"), host("b", "v2"), host("c", "v1")})
	if f := d.found("versions"); f.Grade != pawl.GradeRisk || f.Text != "hosts run different versions: v1 on a, c; v2 on b" {
		t.Errorf("of two versions it says %s: %s", f.Grade, f.Text)
	}
}

func TestDoctorReachesSinks(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{settings: &config.Settings{Sinks: map[string]config.Sink{
		"mail": {Addr: listener.Addr().String()},
		"chat": {URL: config.Secret("http://" + listener.Addr().String() + "/hook?token=hidden"), AllowPrivate: true},
		"shut": {URL: config.Secret("http://" + listener.Addr().String() + "/hook?token=hidden")},
	}}}
	d.sinks(t.Context())
	for _, check := range []string{"sink mail", "sink chat"} {
		if f := d.found(check); f.Grade != pawl.GradeFine || f.Text == "" {
			t.Errorf("%s is %s: %s", check, f.Grade, f.Text)
		}
	}
	if f := d.found("sink shut"); f.Grade != pawl.GradeFault || !strings.Contains(f.Text, "is not a public one") {
		t.Errorf("a sink that refuses its own target is %s: %s", f.Grade, f.Text)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	d.findings = nil
	d.sinks(t.Context())
	for _, check := range []string{"sink mail", "sink chat"} {
		if f := d.found(check); f.Grade != pawl.GradeFault || strings.Contains(f.Text, "hidden") {
			t.Errorf("without a server, %s is %s: %s", check, f.Grade, f.Text)
		}
	}
}

func TestSinkAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://hooks.example.com/x":      "hooks.example.com:https",
		"https://hooks.example.com:8443/x": "hooks.example.com:8443",
		"http://[::1]/x":                   "[::1]:http",
	} {
		if got := sinkAddress(config.Sink{URL: config.Secret(text)}); got != want {
			t.Errorf("%s is at %s, want %s", text, got, want)
		}
	}
}
