package app

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
	"github.com/pawljobs/pawl/sqlite"
)

func statusOf(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}

var masks = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), ""},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "<time.ms>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC`), "<minute>"},
	{regexp.MustCompile(`\(\d+m?s ago\)`), "(<age> ago)"},
	{regexp.MustCompile(`"oldest_(ready|pending)_ms":\d+`), `"oldest_${1}_ms":<ms>`},
	{regexp.MustCompile(`"counts":\[[0-9,]+\]`), `"counts":[<n>]`}, // they depend on when the minute began
	{regexp.MustCompile(`"pid":\d+`), `"pid":<pid>`},
}

// mask replaces what differs from run to run. Ids are numbered as they appear.
func mask(output string) string {
	for _, m := range masks {
		if m.name != "" {
			output = m.pattern.ReplaceAllString(output, m.name)
			continue
		}
		seen := map[string]string{}
		output = m.pattern.ReplaceAllStringFunc(output, func(id string) string {
			if seen[id] == "" {
				seen[id] = fmt.Sprintf("<id%d>", len(seen)+1)
			}
			return seen[id]
		})
	}
	return output
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// death says what mkdead kills, and how.
type death struct {
	kind, queue, args, message, reason, tag, correlation, redrive, connection, ending string
	count, tries, maxTries                                                            int
	corrupt                                                                           bool
}

// mkdead makes dead letters as a host does, through the store's own verbs, and prints their ids.
func mkdead() {
	var d death
	flag.StringVar(&d.kind, "kind", "email.welcome.v1", "")
	flag.StringVar(&d.queue, "queue", "2-default", "")
	flag.StringVar(&d.args, "args", `{"user_id":7}`, "")
	flag.StringVar(&d.message, "error", "550 no such user", "quoted as in Go where it begins with a quote")
	flag.StringVar(&d.reason, "reason", "permanent", "")
	flag.StringVar(&d.tag, "tag", "", "")
	flag.StringVar(&d.correlation, "correlation", "", "")
	flag.StringVar(&d.redrive, "redrive", "any", "")
	flag.StringVar(&d.connection, "connection", "default", "")
	flag.StringVar(&d.ending, "ending", "returned", "of the tries before the last")
	flag.IntVar(&d.count, "n", 1, "")
	flag.IntVar(&d.tries, "tries", 1, "")
	flag.IntVar(&d.maxTries, "max-tries", 6, "")
	flag.BoolVar(&d.corrupt, "corrupt", false, "")
	flag.Parse()
	if strings.HasPrefix(d.message, `"`) {
		message, err := strconv.Unquote(d.message)
		check(err)
		d.message = message
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, "pawl.db", sqlite.Config{Connection: d.connection})
	check(err)
	session := openSession(ctx, s, []string{d.queue}, d.kind)
	for range d.count {
		d.enqueue(ctx, s)
	}
	for range d.tries - 1 {
		for _, job := range claim(ctx, s, session, d.kind, d.queue) {
			d.fail(ctx, s, session, job)
		}
		_, err := s.Sweep(ctx, pawl.SweepRequest{Session: session})
		check(err)
	}
	for _, job := range claim(ctx, s, session, d.kind, d.queue) {
		letter := d.letter(job)
		outcome := pawl.Dead{Class: letter.Class, Reason: letter.Reason}
		settle(ctx, s, session, pawl.Settlement{Reservation: job.Reservation, Outcome: outcome, Letter: &letter})
		fmt.Println(letter.ID)
	}
	check(s.CloseSession(ctx, session))
	check(s.Close())
}

func openSession(ctx context.Context, s *sqlite.Store, queues []string, kinds ...string) pawl.SessionID {
	session, err := s.OpenSession(ctx, pawl.HostInfo{
		Name: "host-a", PID: 42, Version: "1.2.3", Kinds: kinds, Sinks: []string{"log"}, NoDrain: noDrain,
		Servers: []pawl.ServerInfo{{Name: "worker-io", Queues: queues, Workers: 20}},
	})
	check(err)
	return session
}

func (d death) enqueue(ctx context.Context, s *sqlite.Store) {
	rule, err := parseRule(d.redrive)
	check(err)
	options := []pawl.Option{pawl.InQueue(d.queue), pawl.MaxTries(d.maxTries)}
	if d.tag != "" {
		options = append(options, pawl.Tags(d.tag))
	}
	if d.correlation != "" {
		options = append(options, pawl.CorrelationID(d.correlation))
	}
	job, err := pawl.NewKind[json.RawMessage](d.kind, pawl.Policy{Redrive: rule}).
		New(ctx, s.Connection(), json.RawMessage(d.args), options...)
	check(err)
	if d.corrupt {
		job.Envelope[len(job.Envelope)-1] ^= 0xff
	}
	_, err = s.Enqueue(ctx, []pawl.NewJob{job})
	check(err)
}

func (d death) letter(job pawl.ClaimedJob) pawl.DeadLetter {
	reason, err := oneOf(allReasons...)(d.reason)
	check(err)
	dead := pawl.Dead{Class: pawl.DeathExhausted, Reason: reason}
	switch reason {
	case pawl.ReasonPermanent, pawl.ReasonExplicit:
		dead.Class = pawl.DeathPermanent
	case pawl.ReasonUndecodable, pawl.ReasonWrongArgs, pawl.ReasonUnknownKind, pawl.ReasonSignature, pawl.ReasonCrashLoop:
		dead.Class = pawl.DeathPoison
	}
	undertaker := pawl.Undertaker{Connection: d.connection, Host: "host-a", Server: "worker-io", Version: "1.2.3"}
	letter := pawl.NewDeadLetter(undertaker, job, dead, time.Now(), errors.New(d.message))
	return letter
}

// fail ends a try; of a crash nobody knows how long it took.
func (d death) fail(ctx context.Context, s *sqlite.Store, session pawl.SessionID, job pawl.ClaimedJob) {
	record := &pawl.AttemptRecord{
		Attempt: job.Attempt, Ending: pawl.Ending(d.ending), StartedAt: time.Now(), Duration: 1500 * time.Millisecond,
		Host: "host-a", Type: "*errors.errorString", Message: "421 try later",
	}
	if record.Ending == pawl.EndCrashed {
		record.Duration, record.Type, record.Message = 0, "", ""
	}
	settle(ctx, s, session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Retry{}, Record: record})
}

func claim(ctx context.Context, s *sqlite.Store, session pawl.SessionID, kind, queue string) []pawl.ClaimedJob {
	claimed, err := s.Claim(ctx, pawl.ClaimRequest{Session: session, Queues: []string{queue}, Kinds: []string{kind}, Max: 1000})
	check(err)
	return claimed.Jobs
}

func settle(ctx context.Context, s *sqlite.Store, session pawl.SessionID, settlement pawl.Settlement) {
	refusals, err := s.Settle(ctx, session, []pawl.Settlement{settlement})
	check(errors.Join(append(refusals, err)...))
}

// finish lets the jobs of a kind succeed.
func finish() {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, "pawl.db", sqlite.Config{})
	check(err)
	queues := []string{"1-critical", "2-default", "3-bulk"}
	session := openSession(ctx, s, queues, os.Args[1])
	for _, queue := range queues {
		for _, job := range claim(ctx, s, session, os.Args[1], queue) {
			settle(ctx, s, session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}})
		}
	}
	check(s.CloseSession(ctx, session))
	check(s.Close())
}

// noDrain is what the sessions say of orders to drain.
var noDrain bool

// liveHost leaves a session open that has claimed the jobs of a kind, as a running host has, and ends.
func liveHost() {
	queues := flag.String("queues", "1-critical,2-default", "that it serves")
	quiet := flag.Bool("silent", false, "it was last heard of ten minutes ago")
	drains := flag.Bool("draining", false, "")
	flag.BoolVar(&noDrain, "no-drain", false, "only its own program ends it")
	flag.Parse()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, "pawl.db", sqlite.Config{})
	check(err)
	served := strings.Split(*queues, ",")
	session := openSession(ctx, s, served, flag.Arg(0))
	for _, queue := range served {
		claim(ctx, s, session, flag.Arg(0), queue)
	}
	if *drains {
		_, err = s.Beat(ctx, session, pawl.Beat{Draining: true})
		check(err)
	}
	check(s.Close())
	if *quiet {
		ageBeat(int64(session))
	}
}

// ageBeat ages a session's last beat, which only the store's clock writes.
func ageBeat(session int64) {
	db, err := sql.Open("sqlite", "pawl.db")
	check(err)
	_, err = db.Exec(`update pawl_session set beat_at = beat_at - 600000 where id = ?`, session)
	check(errors.Join(err, db.Close()))
}

// retire NAME: the sink was retired eight days ago, as hosts' sweeps do by the store's clock.
func retire() {
	db, err := sql.Open("sqlite", "pawl.db")
	check(err)
	_, err = db.Exec(`update pawl_sink set seen_at = 1, retired_at = ? where name = ?`, time.Now().Add(-8*24*time.Hour).UnixMilli(), os.Args[1])
	check(errors.Join(err, db.Close()))
}

// mkbox [SQL]: writes three messages in the outbox of shop.db, has SQL change that, and prints their ids.
func mkbox() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:shop.db?_txlock=immediate&_pragma=busy_timeout(5000)")
	check(err)
	box, err := outbox.OpenSQLite(ctx, db, outbox.Config{})
	check(err)
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	for user := range 3 {
		kind := pawl.NewKind[map[string]int]("email.welcome.v1", pawl.Policy{})
		id, err := kind.Enqueue(ctx, box.Tx(tx), map[string]int{"user_id": user})
		check(err)
		fmt.Println(id)
	}
	check(tx.Commit())
	for _, statement := range os.Args[1:] {
		_, err = db.ExecContext(ctx, statement)
		check(err)
	}
	check(db.Close())
}
