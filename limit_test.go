package pawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// What a limit may be is checked where the kind is used, and what is wrong is named.
func TestImpossibleLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit pawl.Limit
		names string
	}{
		"negative concurrency":    {pawl.Limit{Concurrency: -1}, "limit"},
		"negative per key":        {pawl.Limit{PerKey: -2}, "limit per key"},
		"negative rate":           {pawl.Limit{Starts: -1}, "rate limit"},
		"negative burst":          {pawl.Limit{Starts: 1, Burst: -1}, "burst"},
		"duration without a rate": {pawl.Limit{Per: time.Second}, "rate limit"},
		"burst without a rate":    {pawl.Limit{Burst: 3}, "rate limit"},
		"too short a duration":    {pawl.Limit{Starts: 1, Per: time.Microsecond}, "rate limit's duration"},
		"too long a duration":     {pawl.Limit{Starts: 1, Per: 25 * time.Hour}, "rate limit's duration"},
	} {
		kind := pawl.NewKind[mailArgs]("mail.send.v1", pawl.Policy{Limit: c.limit})
		_, err := kind.Enqueue(t.Context(), &memory{}, mailArgs{})
		var field *pawl.FieldError
		if !errors.As(err, &field) || field.Field != c.names {
			t.Errorf("%s: error %v, want one that names %q", name, err, c.names)
		}
	}
}

func TestLimitText(t *testing.T) {
	t.Parallel()
	for want, limit := range map[string]pawl.Limit{
		"none":                        {},
		"40 at once":                  {Concurrency: 40},
		"2 per key":                   {PerKey: 2},
		"10 in 1s, burst 10":          {Starts: 10},
		"3 in 1m0s, burst 1":          {Starts: 3, Per: time.Minute, Burst: 1},
		"4 at once, 2 per key":        {Concurrency: 4, PerKey: 2},
		"1 at once, 1 in 1s, burst 1": {Concurrency: 1, Starts: 1},
	} {
		if got := limit.String(); got != want {
			t.Errorf("%#v reads %q, want %q", limit, got, want)
		}
	}
}

func TestLimitRate(t *testing.T) {
	t.Parallel()
	if rate, burst := (pawl.Limit{Starts: 30, Per: time.Minute}).Rate(); rate != 0.5 || burst != 30 {
		t.Errorf("30 a minute: %v per second, burst %d", rate, burst)
	}
	if rate, burst := (pawl.Limit{Concurrency: 3}).Rate(); rate != 0 || burst != 0 {
		t.Errorf("no rate: %v per second, burst %d", rate, burst)
	}
}

// Keys travel in the envelope, and with the job beside it; that the kind is limited too, but not how.
func TestKeysAndLimitsAreHandedOn(t *testing.T) {
	t.Parallel()
	to := &memory{}
	limit := pawl.Limit{Concurrency: 5}
	kind := pawl.NewKind[mailArgs]("mail.send.v1", pawl.Policy{Limit: limit})
	job, envelope := enqueue(t, to, kind, pawl.OrderingKey("order-17"), pawl.LimitKey("customer-7"))
	if job.OrderingKey != "order-17" || job.LimitKey != "customer-7" || !job.Limited || job.Limit != limit {
		t.Errorf("job %+v", job)
	}
	again := pawl.NewJobFrom(envelope)
	if again.OrderingKey != "order-17" || again.LimitKey != "customer-7" || !again.Limited || !again.Limit.IsZero() {
		t.Errorf("job made of its envelope %+v", again)
	}
	plain, _ := enqueue(t, to, pawl.NewKind[mailArgs]("mail.plain.v1", pawl.Policy{}))
	if plain.Limited || plain.OrderingKey != "" {
		t.Errorf("job of a kind without a limit: %+v", plain)
	}
	to.connection.Policy.Limit = pawl.Limit{PerKey: 1}
	if wide, _ := enqueue(t, to, pawl.NewKind[mailArgs]("mail.plain.v1", pawl.Policy{})); wide.Limit.PerKey != 1 {
		t.Errorf("a kind does not inherit its connection's limit: %+v", wide)
	}
	for _, option := range []pawl.Option{pawl.OrderingKey(""), pawl.LimitKey(""), pawl.OrderingKey(strings.Repeat("k", 257)), pawl.LimitKey("a\x00b")} {
		if _, err := kind.Enqueue(t.Context(), to, mailArgs{}, option); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("error %v, want a refusal", err)
		}
	}
}

func ExampleLimit() {
	type Call struct{ Customer string }
	// At most 40 at once, 2 for each customer, and 10 a second.
	call := pawl.NewKind[Call]("partner.call.v1", pawl.Policy{Limit: pawl.Limit{Concurrency: 40, PerKey: 2, Starts: 10}})
	_ = func(to pawl.Enqueuer) {
		_, _ = call.Enqueue(context.Background(), to, Call{"customer-7"}, pawl.LimitKey("customer-7"))
	}
}

func ExampleOrderingKey() {
	type Event struct{ Order, N int }
	event := pawl.NewKind[Event]("order.event.v1", pawl.Policy{})
	_ = func(to pawl.Enqueuer) { // they run one after the other, in this order
		_, _ = event.Enqueue(context.Background(), to, Event{17, 1}, pawl.OrderingKey("order-17"))
		_, _ = event.Enqueue(context.Background(), to, Event{17, 2}, pawl.OrderingKey("order-17"))
	}
}
