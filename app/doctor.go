package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/reach"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const (
	doctorTime = time.Minute       // for all that is looked at
	dialTime   = 5 * time.Second   // for a sink to answer
	serviceEnd = 150 * time.Second // what a service manager waits for, as service install tells it
	manyClosed = 100_000           // letters that were resolved or discarded
)

func (p *program) doctorCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what may hurt one day: configuration, database, clocks, hosts, channels",
		Long: `Look for what may hurt one day, and say what to do about it: the configuration and its ladder of timeouts, the database with its
settings, rights, clock and old transactions, the disk, jobs that nobody runs, hosts of different versions, whether alerts reach
anybody. Nothing is changed, and nothing is sent.

A fault does not work, or not as promised; a risk works, and may hurt one day. serve looks at the same when it starts, and warns
in its log. Exit status: 8 with a fault, 5 when the configuration cannot be used at all.`,
		Example: "  pawl doctor\n  pawl doctor --json | jq -r '.findings[] | select(.grade != \"fine\") | .text'",
		Args:    needs("", 0, 0),
	}
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		findings, err := p.examine(ctx, s, false)
		if err != nil {
			return err
		}
		faults := 0
		for _, f := range findings {
			if f.Grade == pawl.GradeFault {
				faults++
			}
		}
		if p.json {
			err = p.printer.object(diagnosisOf(findings))
		} else {
			p.showFindings(findings)
		}
		if err == nil && faults > 0 {
			return withStatus(exitUnhealthy, errReported)
		}
		return err
	})
	return command
}

// finding is the JSON form of one.
type finding struct {
	Check string  `json:"check"`
	Grade string  `json:"grade"`
	Text  string  `json:"text"`
	Fix   *string `json:"fix"`
}

type diagnosis struct {
	Faults   int       `json:"faults"`
	Risks    int       `json:"risks"`
	Findings []finding `json:"findings"`
}

func diagnosisOf(findings []pawl.Finding) (d diagnosis) {
	d.Findings = make([]finding, len(findings))
	for i, f := range findings {
		d.Findings[i] = finding{Check: f.Check, Grade: f.Grade.String(), Text: f.Text}
		if f.Fix != "" {
			d.Findings[i].Fix = &f.Fix
		}
		switch f.Grade {
		case pawl.GradeFault:
			d.Faults++
		case pawl.GradeRisk:
			d.Risks++
		}
	}
	return d
}

// showFindings prints the worst first.
func (p *program) showFindings(findings []pawl.Finding) {
	d := diagnosisOf(findings)
	switch {
	case d.Faults > 0:
		p.printer.line(p.printer.style(styleRed, fmt.Sprintf("Not well: %s, %s.", count(d.Faults, "fault"), count(d.Risks, "risk"))))
	case d.Risks > 0:
		p.printer.line(p.printer.style(styleBold, fmt.Sprintf("It works, with %s.", count(d.Risks, "risk"))))
	default:
		p.printer.line(p.printer.style(styleBold, "All is well."))
	}
	for _, grade := range []pawl.Grade{pawl.GradeFault, pawl.GradeRisk, pawl.GradeFine} {
		for _, f := range findings {
			if f.Grade != grade {
				continue
			}
			p.printer.line(fmt.Sprintf("  %-5s  %-12s %s.", grade, f.Check, escape(capitalized(f.Text))))
			if f.Fix != "" {
				p.printer.line(p.printer.style(styleDim, strings.Repeat(" ", 22)+escape(capitalized(f.Fix))+"."))
			}
		}
	}
}

// examine makes every check that can be made from here. A host that is starting is about to serve what nobody serves.
func (p *program) examine(ctx context.Context, s store, starting bool) ([]pawl.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	d := &doctor{settings: settings, program: p}
	d.configuration()
	d.ladders()
	if examiner, ok := s.(pawl.Examiner); ok {
		findings, err := examiner.Examine(ctx)
		if err != nil {
			return nil, err
		}
		d.findings = append(d.findings, findings...)
	} else {
		d.add("store", pawl.GradeRisk, "it is looked at over the network, which shows nothing of its database", "run this where the store is")
	}
	if err := d.standing(ctx, s, starting); err != nil {
		return nil, err
	}
	if err := d.outboxes(ctx, s.Connection().Name); err != nil {
		return nil, err
	}
	d.sinks(ctx)
	return d.findings, nil
}

// doctor is one examination under way.
type doctor struct {
	program  *program
	settings *config.Settings
	findings []pawl.Finding
}

func (d *doctor) add(check string, grade pawl.Grade, text, fix string) {
	d.findings = append(d.findings, pawl.Finding{Check: check, Grade: grade, Text: text, Fix: fix})
}

// configuration was checked when it was read. What listens for other machines should not be bare.
func (d *doctor) configuration() {
	from := "the defaults, flags and the environment"
	if file := d.program.sources().File; file != "" {
		from = file
	}
	d.add("config", pawl.GradeFine, "the configuration is good, from "+from, "")
	host, _, err := net.SplitHostPort(d.settings.Listen)
	ip := net.ParseIP(host)
	if err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		what := "health and metrics"
		if len(d.settings.API.Tokens) > 0 {
			what = "health, metrics, and the API with its tokens,"
		}
		d.add("listen", pawl.GradeRisk, fmt.Sprintf("%s can be reached at %s from other machines, without TLS", what, d.settings.Listen),
			"let only a proxy with TLS, or a network that you trust, get there")
	}
}

// ladders compares timeouts that cut each other off.
func (d *doctor) ladders() {
	drain := d.settings.Drain
	text := fmt.Sprintf("a stop gives handlers %s, and the process ends after %s", config.ShowDuration(drain.Handler), config.ShowDuration(drain.Host))
	if drain.Host >= serviceEnd {
		d.add("drain", pawl.GradeRisk, text+", later than the service manager waits", fmt.Sprintf("stay below %s, or raise TimeoutStopSec", config.ShowDuration(serviceEnd)))
	} else {
		d.add("drain", pawl.GradeFine, text, "")
	}
	mux := d.program.mux
	if mux == nil {
		return
	}
	for _, downstream := range d.program.options.Downstreams {
		var short []string
		for _, kind := range mux.Kinds() {
			if timeout := mux.Policy(kind).Timeout; timeout > 0 && timeout < downstream.Options().Job {
				short = append(short, fmt.Sprintf("%s (%s)", kind, config.ShowDuration(timeout)))
			}
		}
		if len(short) > 0 {
			d.add("ladder", pawl.GradeRisk, fmt.Sprintf("downstream %s is made for jobs of %s, and these have less: %s",
				downstream.Name(), config.ShowDuration(downstream.Options().Job), strings.Join(short, ", ")),
				"where their handlers call it, state the shortest of their timeouts as its Options.Job")
		}
	}
}

// standing is how the store is served and used.
func (d *doctor) standing(ctx context.Context, s store, starting bool) error {
	status, err := ops.ReadStatus(ctx, s, ops.StatusOptions{})
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(status.Troubles, status.Notes) {
		switch t.What {
		case ops.OpenFailures, ops.QueuePaused, ops.KindOff, ops.HostsDrain, ops.NotServed:
			continue // what status is for
		case ops.NoHost, ops.QueueUnserved, ops.KindUnserved, ops.QueueLate, ops.ScheduleLate, ops.ScheduleUnserved, ops.SinkUnserved:
			if starting {
				continue
			}
		}
		fix := "see `pawl status`"
		if next := d.program.remedy(t); next != "" {
			fix = "see `" + next + "`"
		}
		d.add(string(t.What), pawl.GradeRisk, t.Text, fix)
	}
	d.versions(status.Hosts)
	closed, err := s.CountLetters(ctx, pawl.LetterFilter{Status: []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded}})
	if err != nil {
		return err
	}
	if closed > manyClosed {
		d.add("retention", pawl.GradeRisk, fmt.Sprintf("%d dead letters are resolved or discarded and kept", closed),
			"remove the old ones with `pawl dead prune`, or have hosts do it")
	} else {
		d.add("retention", pawl.GradeFine, fmt.Sprintf("%d dead letters are resolved or discarded and kept", closed), "")
	}
	return nil
}

// versions tells of a deploy that has stopped half-way.
func (d *doctor) versions(hosts []pawl.HostView) {
	by, live := map[string][]string{}, 0
	for _, h := range hosts {
		if !ops.Live(h) {
			continue
		}
		live++
		if h.Version != "" {
			by[h.Version] = append(by[h.Version], h.Name)
		}
	}
	if len(by) < 2 {
		d.add("versions", pawl.GradeFine, fmt.Sprintf("%s live", count(live, "host")), "")
		return
	}
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s on %s", version, strings.Join(by[version], ", ")))
	}
	d.add("versions", pawl.GradeRisk, "hosts run different versions: "+strings.Join(parts, "; "), "where they are of one program, see that the deploy comes to its end")
}

// sinks asks whether the configured channels can be reached; they are not spoken to.
func (d *doctor) sinks(ctx context.Context) {
	names := slices.Sorted(maps.Keys(d.settings.Sinks))
	errs := make([]error, len(names))
	var dials sync.WaitGroup
	for i, name := range names {
		dials.Go(func() { errs[i] = connect(ctx, d.settings.Sinks[name]) })
	}
	dials.Wait()
	for i, name := range names {
		if errs[i] != nil {
			d.add("sink "+name, pawl.GradeFault, "it cannot be reached from here: "+oneLine(errs[i]), "see that its server runs, and that this machine may connect to it; then `pawl alerts test`")
			continue
		}
		d.add("sink "+name, pawl.GradeFine, "its server answers; `pawl alerts test` sends something", "")
	}
}

// sinkAddress is where a sink connects to.
func sinkAddress(s config.Sink) string {
	if s.Addr != "" {
		return s.Addr
	}
	target, err := url.Parse(string(s.URL))
	if err != nil {
		return ""
	}
	port := target.Port()
	if port == "" {
		port = target.Scheme // a service's name is a port too
	}
	return net.JoinHostPort(target.Hostname(), port)
}

// connect does so as the sink would, and hangs up.
func connect(ctx context.Context, s config.Sink) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	dialer := &net.Dialer{}
	if s.URL != "" && !s.AllowPrivate {
		dialer.Control = reach.PublicOnly
	}
	conn, err := dialer.DialContext(ctx, "tcp", sinkAddress(s))
	if err != nil {
		return err
	}
	return conn.Close()
}

// warnOf says in the log what is not fine, while a host runs.
func (p *program) warnOf(ctx context.Context, s store, log *slog.Logger) {
	findings, err := p.examine(ctx, s, true)
	if err != nil && ctx.Err() == nil {
		log.Warn("the store could not be examined", "error", oneLine(err))
	}
	for _, f := range findings {
		if f.Grade != pawl.GradeFine {
			log.Warn("examination: "+f.Text, "check", f.Check, "grade", f.Grade.String(), "fix", f.Fix)
		}
	}
}
