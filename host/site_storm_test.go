package host_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// ledgerSink keeps what it is told, by key. It may hang on digests.
type ledgerSink struct {
	name string
	hang chan struct{} // closed when digests no longer hang; nil: they never do
	hung chan pawl.Alert

	mu   sync.Mutex
	took map[string]pawl.Alert
}

func newLedgerSink(name string, hang chan struct{}) *ledgerSink {
	return &ledgerSink{name: name, hang: hang, hung: make(chan pawl.Alert, 100), took: map[string]pawl.Alert{}}
}

func (s *ledgerSink) Name() string { return s.name }

func (s *ledgerSink) Deliver(ctx context.Context, alert pawl.Alert) error {
	if s.hang != nil && alert.Digest != nil {
		select {
		case <-s.hang:
		default:
			s.hung <- alert
			<-ctx.Done()
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took[alert.Key] = alert
	return nil
}

// told counts messages by key, and the deaths in them.
func (s *ledgerSink) told() (messages, deaths int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, alert := range s.took {
		deaths += deathsOf(alert)
	}
	return len(s.took), deaths
}

// A host is killed while it sends a digest. The next one sends the same digest, under the same key, and both sinks hear
// of every death, though one hung.
func TestDigestOfAHostThatWasKilled(t *testing.T) {
	onBoth(t, func(s *site) {
		const deaths = 300
		s.handle(func(context.Context, *pawl.Job, workArgs) error {
			return pawl.Permanent(errors.New("550 no such user"))
		})
		release := make(chan struct{})
		good, hanging := newLedgerSink("good", nil), newLedgerSink("hanging", release)
		config := s.config("first", 20)
		config.Sinks = []pawl.Sink{good, hanging}
		config.Storm = pawl.Storm{Deaths: 5, Window: 2 * time.Second}
		config.Intervals.Alerts = 100 * time.Millisecond
		first := s.startOn(s.open(), config)
		s.put(work, deaths)
		cut := come(s, "the digest that is cut off", hanging.hung)
		first.Abort()
		<-first.ended
		close(release)
		config.Name = "second"
		second := s.startOn(s.open(), config)
		s.until("the delivery of all alerts", func() bool {
			sinks, err := s.store.Sinks(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			return len(sinks) == 2 && sinks[0].Delivered == deaths && sinks[1].Delivered == deaths
		})
		second.stop()
		for _, sink := range []*ledgerSink{good, hanging} {
			messages, told := sink.told()
			s.equal("deaths told to "+sink.name, told, deaths)
			if messages > 20 {
				s.Errorf("sink %s got %d messages", sink.name, messages)
			}
		}
		again, ok := hanging.took[cut.Key]
		if !ok || again.Attempt < 2 || again.Digest.Deaths != cut.Digest.Deaths || again.Letters[0].ID != cut.Letters[0].ID {
			s.Errorf("the digest %s of %d deaths came again as %+v", cut.Key, cut.Digest.Deaths, again.Digest)
		}
	})
}
