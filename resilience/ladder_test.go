package resilience_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/resilience"
	"github.com/pawljobs/pawl/sqlite"
)

// TestLadder climbs the whole ladder in virtual time: a downstream that hangs gives attempt timeouts, short retries,
// where there is less time the total, the job's retry curve, a dead letter, and one alert on each channel. All is
// real, the store a file, the alerts by mail and webhook.
func TestLadder(t *testing.T) {
	for name, row := range map[string]struct {
		options     resilience.Options
		least, most time.Duration // of one try
		says        string        // the letter
	}{
		"attempts": {resilience.Options{}, 83500 * time.Millisecond, 85250 * time.Millisecond, "cdn: attempt timeout (20s) in attempt 4"},
		"total":    {resilience.Options{Total: 70 * second}, 70 * second, 70 * second, "cdn: total timeout (1m10s) in attempt 4"},
	} {
		t.Run(name, func(t *testing.T) {
			channels := newChannels(t)
			var mu sync.Mutex
			var asked []time.Time
			hanging := func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, time.Now())
				mu.Unlock()
				hang(w, r)
			}
			serviced(t, row.options, hanging, func(s *service) {
				w := newWorld(s, channels)
				w.run(func() { channels.await(s.T) })
				checkTries(s.T, w.tries, row.least, row.most)
				checkRequests(s.T, asked, w.tries)
				letter := w.onlyLetter()
				if letter.Class != pawl.DeathExhausted || letter.Reason != pawl.ReasonBudget || letter.Attempts != 6 || !strings.Contains(letter.Message, row.says) {
					s.Errorf("letter %v %v after %d: %s", letter.Class, letter.Reason, letter.Attempts, letter.Message)
				}
				channels.check(s.T, letter)
			})
		})
	}
}

// rhythm is how often the host looks for jobs that are due.
const rhythm = 30 * second

// try is one run of the handler.
type try struct{ begun, ended time.Time }

type ladderWorld struct {
	*service
	store *sqlite.Store
	host  *host.Host
	tries []try
}

var avatar = pawl.NewKind[int]("avatar.fetch.v1", pawl.Policy{})

func newWorld(s *service, channels *channels) *ladderWorld {
	s.Helper()
	quiet := slog.New(slog.DiscardHandler)
	w := &ladderWorld{service: s}
	var err error
	w.store, err = sqlite.Open(context.Background(), filepath.Join(s.TempDir(), "jobs.db"), sqlite.Config{PollInterval: time.Hour, Logger: quiet})
	if err != nil {
		s.Fatal(err)
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, avatar, func(ctx context.Context, _ int) error {
		begun := time.Now()
		defer func() { w.tries = append(w.tries, try{begun, time.Now()}) }()
		return s.do(s.request(http.MethodGet, "/avatars/7", nil).WithContext(ctx))
	})
	w.host, err = host.New(w.store, mux, host.Config{
		Classifiers: []pawl.Classifier{classify.Default()}, Sinks: channels.sinks, Logger: quiet,
		// Slow rhythms: six hours pass.
		Intervals: host.Intervals{
			Beat: 10 * time.Minute, Silence: 30 * time.Minute, DeadAfter: 40 * time.Minute,
			Poll: time.Minute, Sweep: rhythm, Alerts: 10 * time.Minute,
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := avatar.Enqueue(context.Background(), w.store, 7); err != nil {
		s.Fatal(err)
	}
	return w
}

// run lets the host run until wait returns.
func (w *ladderWorld) run(wait func()) {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.host.Run(ctx) }()
	wait()
	stop()
	if err := <-ended; err != nil {
		w.Error(err)
	}
}

func (w *ladderWorld) onlyLetter() pawl.DeadLetter {
	w.Helper()
	page, err := w.store.Letters(context.Background(), pawl.LetterFilter{}, pawl.Page{})
	if err != nil || len(page.Letters) != 1 {
		w.Fatalf("%d letters, %v", len(page.Letters), err)
	}
	if err := w.store.Close(); err != nil {
		w.Error(err)
	}
	return page.Letters[0]
}

// checkTries compares the tries with the job's curve: each at least its delay after the one before, with up to 10 % and
// the host's rhythm on top.
func checkTries(t *testing.T, tries []try, least, most time.Duration) {
	t.Helper()
	curve := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 2 * time.Hour}
	if len(tries) != len(curve)+1 {
		t.Fatalf("%d tries", len(tries))
	}
	for i, try := range tries {
		between(t, fmt.Sprintf("try %d took", i+1), try.ended.Sub(try.begun), least, most)
		if i > 0 {
			delay := curve[i-1]
			between(t, fmt.Sprintf("before try %d", i+1), try.begun.Sub(tries[i-1].ended), delay, delay+delay/10+2*rhythm)
		}
	}
}

// checkRequests looks for four requests in each try, the first at its begin, the others 20 s and a short wait apart.
func checkRequests(t *testing.T, asked []time.Time, tries []try) {
	t.Helper()
	if len(asked) != 4*len(tries) {
		t.Fatalf("%d requests in %d tries", len(asked), len(tries))
	}
	for i, at := range asked {
		if i%4 == 0 {
			between(t, "the first request of a try", at.Sub(tries[i/4].begun), 0, 0)
			continue
		}
		wait := second / 2 << (i%4 - 1)
		between(t, "the next request", at.Sub(asked[i-1]), 20*second+wait, 20*second+wait*3/2)
	}
}

// channels are real receivers of alerts, outside the bubble, where time is real.
type channels struct {
	sinks []pawl.Sink
	mu    sync.Mutex
	mails []string
	posts []string
}

func newChannels(t *testing.T) *channels {
	t.Helper()
	c := &channels{}
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.posts = append(c.posts, string(body))
	}))
	t.Cleanup(chat.Close)
	addr := mailServer(t, func(string) error { return nil }, func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mails = append(c.mails, text)
	})
	mail, err := alert.NewSMTP(alert.SMTPConfig{Addr: addr, From: "jobs@test", To: []string{"oncall@test"}, TLS: alert.TLSNone})
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := alert.NewWebhook(alert.WebhookConfig{URL: chat.URL, AllowHTTP: true, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	c.sinks = []pawl.Sink{mail, webhook}
	return c
}

// await lets virtual time pass until both channels have been told, and an hour more for what may come twice.
func (c *channels) await(t *testing.T) {
	for begun := time.Now(); time.Since(begun) < 6*time.Hour; time.Sleep(time.Minute) {
		c.mu.Lock()
		told := len(c.mails) > 0 && len(c.posts) > 0
		c.mu.Unlock()
		if told {
			time.Sleep(time.Hour)
			return
		}
	}
	t.Error("no alerts after six hours")
}

func (c *channels) check(t *testing.T, letter pawl.DeadLetter) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mails) != 1 || len(c.posts) != 1 {
		t.Fatalf("%d mails, %d posts", len(c.mails), len(c.posts))
	}
	for _, text := range []string{c.mails[0], c.posts[0]} {
		if !strings.Contains(text, letter.ID.String()) || !strings.Contains(text, "avatar.fetch.v1") {
			t.Errorf("an alert that does not name the letter:\n%s", text)
		}
	}
}

// mailServer is a real one on loopback; onRcpt answers for a recipient.
func mailServer(t *testing.T, onRcpt func(to string) error, received func(text string)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return mailSession{onRcpt, received}, nil
	}))
	server.Domain = "mail.test"
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return listener.Addr().String()
}

type mailSession struct {
	onRcpt   func(to string) error
	received func(text string)
}

func (mailSession) Mail(string, *smtp.MailOptions) error        { return nil }
func (s mailSession) Rcpt(to string, _ *smtp.RcptOptions) error { return s.onRcpt(to) }
func (mailSession) Reset()                                      {}
func (mailSession) Logout() error                               { return nil }

func (s mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.received(string(text))
	return err
}
