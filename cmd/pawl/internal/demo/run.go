package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// tempo is what tests make faster.
type tempo struct {
	workers int
	pace    time.Duration // that an outside service takes for an answer
	outage  time.Duration
	options []pawl.Option // of the jobs
	tick    time.Duration // between looks
	// stall is how long nothing may happen until the run is given up. It is longer than pawl.AlertLease: an alert that
	// was being delivered when a run was killed waits for so long.
	stall time.Duration
}

// usual takes a quarter of a minute for the sample; a larger input is worked on faster.
func usual(rows int) tempo {
	t := tempo{workers: 8, pace: 120 * time.Millisecond, outage: 1500 * time.Millisecond, tick: 150 * time.Millisecond, stall: 90 * time.Second}
	if rows > 1000 {
		t.workers = 20
	}
	if most := 6 * time.Second * time.Duration(t.workers) / time.Duration(2*rows); most < t.pace {
		t.pace = most
	}
	return t
}

// run is one run of the demo over a folder: the store, the outside services, and a host with the handlers.
type run struct {
	folder folder
	lock   lock
	rows   []signUp
	smtp   string // another mail server; "" is the demo's own
	tempo  tempo

	logFile *os.File
	ledger  *ledger
	store   *sqlite.Store
	intake  *intake
	healed  bool
	before  struct{ total, dead, letters int } // when the run began

	mails, alerts *box
	mailServer    *mailServer
	downstream    *downstream
	transport     *http.Transport
	host          *host.Host
}

func (r *run) ownMail() bool { return r.smtp == "" }

// open builds everything. What is open when it fails is closed by close.
func (r *run) open(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.openStore, r.startOutside, r.makeHost, r.remember} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) openStore(ctx context.Context) (err error) {
	if err := r.folder.makeBoxes(); err != nil {
		return fmt.Errorf("make folders: %w", err)
	}
	if r.logFile, err = r.folder.openLog(); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	// A year: what has become of every job is counted at the end, also when the run is resumed much later.
	config := sqlite.Config{History: 365 * 24 * time.Hour, BusyTimeout: 20 * time.Second, Logger: r.logger()}
	if r.store, err = sqlite.Open(ctx, r.folder.store(), config); err != nil {
		return err
	}
	if r.ledger, err = openLedger(ctx, r.folder.store()); err != nil {
		return err
	}
	r.healed, err = r.ledger.finished(ctx)
	r.intake = &intake{ledger: r.ledger, store: r.store, corrupted: corruptible(r.rows), options: r.tempo.options}
	return err
}

func (r *run) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(r.logFile, nil)) }

func (r *run) startOutside(context.Context) (err error) {
	r.mails, r.alerts = &box{path: r.folder.mails()}, &box{path: r.folder.alerts()}
	plan := healedPlan()
	if !r.healed {
		plan = newFaultPlan(r.rows, r.intake.corrupted, r.tempo.outage)
	}
	if r.mailServer, err = startMailServer(r.mails, r.alerts, r.healed, r.tempo.pace); err != nil {
		return err
	}
	r.downstream, err = startDownstream(r.folder, r.alerts, plan, r.tempo.pace)
	return err
}

func (r *run) makeHost(context.Context) error {
	address := r.smtp
	if r.ownMail() {
		address = r.mailServer.address()
	}
	mailer, err := newMailer(address)
	if err != nil {
		return err
	}
	sinks, err := r.sinks()
	if err != nil {
		return err
	}
	r.transport = &http.Transport{MaxIdleConnsPerHost: r.tempo.workers}
	work := &handlers{
		ledger: r.ledger, mailer: mailer,
		profiles: profileClient{url: r.downstream.url, client: &http.Client{Transport: r.transport}},
	}
	r.host, err = host.New(r.store, work.mux(), host.Config{
		Name:    "demo",
		Servers: []host.Server{{Name: "io", Queues: []string{"1-critical", "2-default"}, Workers: r.tempo.workers}},
		Drain:   host.Drain{Handler: 5 * time.Second, Server: 7 * time.Second, Host: 10 * time.Second},
		// A run that was killed is taken up again by the next one, which should not have to wait for long.
		Intervals: host.Intervals{
			Beat: 500 * time.Millisecond, Silence: 2 * time.Second, DeadAfter: 3 * time.Second,
			Sweep: 200 * time.Millisecond, Alerts: 500 * time.Millisecond,
		},
		Sinks:       sinks,
		Storm:       pawl.Storm{Deaths: math.MaxInt32}, // each death has messages of its own, to be counted where they arrive
		Classifiers: []pawl.Classifier{classify.Default()},
		Logger:      r.logger(),
	})
	if err != nil {
		return fmt.Errorf("make host: %w", err)
	}
	return nil
}

// sinks deliver to the demo's own receivers, which are asked at the end what they were told.
func (r *run) sinks() ([]pawl.Sink, error) {
	mail, err := alert.NewSMTP(alert.SMTPConfig{
		Addr: r.mailServer.address(), From: "jobs@demo.example", To: []string{alertMailbox}, TLS: alert.TLSNone,
	})
	if err != nil {
		return nil, err
	}
	chat, err := alert.NewWebhook(alert.WebhookConfig{URL: r.downstream.url + alertsPath, AllowHTTP: true, AllowPrivate: true})
	if err != nil {
		return nil, err
	}
	return []pawl.Sink{alert.Log(r.logger()), mail, chat}, nil
}

// remember notes what the store held before this run.
func (r *run) remember(ctx context.Context) error {
	jobs, err := allJobs(ctx, r.store)
	if err != nil {
		return fmt.Errorf("look at jobs: %w", err)
	}
	for _, job := range jobs {
		if job.State == pawl.JobDead {
			r.before.dead++
		}
	}
	r.before.total = len(jobs)
	r.before.letters, err = r.store.CountLetters(ctx, pawl.LetterFilter{})
	if err != nil {
		return fmt.Errorf("count dead letters: %w", err)
	}
	return nil
}

// close ends whatever open has begun, in the order in which it is no longer needed.
func (r *run) close() error {
	var errs []error
	if r.transport != nil {
		r.transport.CloseIdleConnections()
	}
	if r.downstream != nil {
		errs = append(errs, r.downstream.close())
	}
	if r.mailServer != nil {
		errs = append(errs, r.mailServer.close())
	}
	if r.ledger != nil {
		errs = append(errs, r.ledger.close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	if r.logFile != nil {
		errs = append(errs, r.logFile.Close())
	}
	return errors.Join(append(errs, r.lock.release())...)
}

// work enqueues what is missing and runs jobs until none is open and every alert is out. It returns when the host has
// ended: with ctx's cause when ctx ended first, and with errStalled when nothing has happened for too long.
func (r *run) work(ctx context.Context, show *progress) error {
	hostCtx, stop := context.WithCancel(ctx)
	defer stop()
	hostEnded := make(chan error, 1)
	go func() { hostEnded <- r.host.Run(hostCtx) }()
	err := r.intake.enqueue(ctx, r.rows)
	if err == nil {
		err = r.watch(ctx, show, hostEnded)
	}
	if ctx.Err() != nil {
		show.note("stopping: what runs may end")
	}
	stop()
	return errors.Join(err, <-hostEnded)
}

var errStalled = errors.New("nothing has happened for too long")

// watch returns nil when nothing is open any more.
func (r *run) watch(ctx context.Context, show *progress, hostEnded chan error) error {
	defer show.end()
	ticker := time.NewTicker(r.tempo.tick)
	defer ticker.Stop()
	var last counts
	moved := time.Now()
	for {
		now, err := r.look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		show.show(now, time.Now())
		if now.open() == 0 && now.unsent == 0 {
			return r.ledger.recordFinished(ctx)
		}
		if now != last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > r.tempo.stall {
			return errStalled
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-hostEnded:
			hostEnded <- nil // for work, which waits for it
			return errors.Join(errors.New("the host has ended early"), err)
		}
	}
}
