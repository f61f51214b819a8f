package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const alertsHelp = `Alerts: every death is told once to every channel, alone or, when many die, in a digest.`

// orOfLetter lets a list show the alerts of one letter instead.
func (p *program) orOfLetter(list *cobra.Command) *cobra.Command {
	var letter pawl.ID
	addFlag(list.Flags(), &letter, "letter", "ID", "show by which message each channel was told of this letter", pawl.ParseID)
	sinks := list.RunE
	ofLetter := p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		if _, err := s.Letter(ctx, letter); err != nil {
			return p.missing(ctx, s, "alerts of letter", letter, err)
		}
		alerts, err := s.AlertsOf(ctx, letter)
		if err != nil {
			return err
		}
		_, err = printList(p.printer, letterAlerts, each(alerts))
		return err
	})
	list.Long += `
With --letter: sink, state (waiting, delivered or closed), message, deaths that it tells of, tries, delivered at, last error.`
	list.RunE = func(c *cobra.Command, args []string) error {
		if letter.IsZero() {
			return sinks(c, args)
		}
		return ofLetter(c, args)
	}
	return list
}

func alertState(v pawl.AlertView) string {
	switch {
	case v.Pending:
		return "waiting"
	case v.DeliveredAt.IsZero():
		return "closed"
	}
	return "delivered"
}

var letterAlerts = listing[pawl.AlertView]{
	columns: []column[pawl.AlertView]{
		{head: "SINK", cell: func(v pawl.AlertView) string { return v.Sink }},
		{head: "STATE", cell: alertState},
		{head: "MESSAGE", cell: func(v pawl.AlertView) string { return v.Key }},
		{head: "DEATHS", cell: func(v pawl.AlertView) string { return fmt.Sprint(v.Deaths) }},
		{head: "TRIES", cell: func(v pawl.AlertView) string { return fmt.Sprint(v.Attempt) }},
		{head: "DELIVERED", cell: func(v pawl.AlertView) string { return moment(v.DeliveredAt) }},
		{head: "LAST ERROR", cell: func(v pawl.AlertView) string { return v.Error }, width: 80},
	},
	view: func(v pawl.AlertView) any { return wire.LetterAlertOf(v) },
	none: "No sink was registered when this letter's job died.",
}

const alertsTestHelp = `Send a test message through the channels of the configuration, and those that are given here, at once and once: no
store is needed, nothing is queued, and what fails is not tried again. It is how to find out whether a server, an
address and a password are right before something dies.

In a pipe, tab-separated: sink, state (delivered or failed), milliseconds, error.`

func (p *program) alertsTest() *cobra.Command {
	command := &cobra.Command{
		Use:     "test",
		Short:   "Send a test message",
		Long:    alertsTestHelp,
		Example: "  PAWL_SINKS_WEBHOOK_URL=https://hooks.example.com/T0/B0/x pawl alerts test\n  pawl alerts test --smtp mail.example.com:587 --from jobs@example.com --to oncall@example.com",
		Args:    needs("", 0, 0),
	}
	sinkFlags(command)
	command.RunE = p.doing(func(ctx context.Context, _ []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		sinks, err := sinksOf(settings)
		if err != nil {
			return err
		}
		if len(sinks) == 0 {
			return withStatus(exitUsage, errors.New("nothing to test: give --webhook URL, or --smtp HOST:PORT with --from and --to"))
		}
		return p.tryAlerts(ctx, sinks)
	})
	return command
}

// tried is what became of one test message.
type tried struct {
	sink string
	took time.Duration
	err  error
}

func (p *program) tryAlerts(ctx context.Context, sinks []pawl.Sink) error {
	results, failed := make([]tried, len(sinks)), 0
	for i, sink := range sinks {
		results[i] = tryAlert(ctx, sink)
		if results[i].err != nil {
			failed++
		}
	}
	if _, err := printList(p.printer, triedListing, each(results)); err != nil {
		return err
	}
	switch failed {
	case 0:
		return nil
	case len(sinks):
		return withStatus(exitError, errors.New("no test message was delivered"))
	}
	return withStatus(exitPartly, fmt.Errorf("%d of %d test messages were not delivered", failed, len(sinks)))
}

func tryAlert(ctx context.Context, sink pawl.Sink) tried {
	ctx, cancel := context.WithTimeout(ctx, pawl.AlertBudget)
	defer cancel()
	begun := time.Now()
	err := sink.Deliver(ctx, pawl.Alert{Key: "test/" + pawl.NewID().String(), Attempt: 1, Test: true})
	return tried{sink.Name(), time.Since(begun), err}
}

func (t tried) state() string {
	if t.err != nil {
		return "failed"
	}
	return "delivered"
}

func (t tried) failure() string {
	if t.err == nil {
		return ""
	}
	return t.err.Error()
}

var triedListing = listing[tried]{
	columns: []column[tried]{
		{head: "SINK", cell: func(t tried) string { return t.sink }},
		{head: "STATE", cell: tried.state},
		{head: "MS", cell: func(t tried) string { return fmt.Sprint(t.took.Milliseconds()) }},
		{head: "ERROR", cell: tried.failure},
	},
	view: func(t tried) any {
		return struct {
			Sink  string `json:"sink"`
			State string `json:"state"`
			MS    int64  `json:"ms"`
			Error text   `json:"error"`
		}{t.sink, t.state(), t.took.Milliseconds(), text(t.failure())}
	},
}
