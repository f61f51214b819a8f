package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

const (
	alertBatch  = 4 // rows under lease at a time; together they fit into the lease
	sinkStrays  = 4 // deliveries that ignore their ctx, until the sink gets no more
	alertTries  = 3 // to record what became of a delivery
	ignoreGrace = time.Second
	lull        = 500 * time.Millisecond // between looks while deaths bring nothing to deliver, as in a storm
)

// courier delivers the alerts of one sink. Each sink has its own, so that a slow one delays no other.
type courier struct {
	host    *Host
	sink    pawl.Sink
	name    string
	kick    chan struct{}
	strays  chan struct{} // one value for each delivery that has not returned
	trouble *trouble.Trouble
	failing *trouble.Trouble
}

func newCourier(h *Host, sink pawl.Sink) *courier {
	return &courier{
		host: h, sink: sink, name: sink.Name(), kick: make(chan struct{}, 1), strays: make(chan struct{}, sinkStrays),
		trouble: trouble.New(h.log, "the queue of alerts cannot be read or written"),
		failing: trouble.New(h.log, "alerts cannot be delivered; they are kept and tried again"),
	}
}

// run delivers until ctx is done; a batch that was begun is finished.
func (c *courier) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures, fruitless := 0, 0 // fruitless: deaths in a row that brought nothing to deliver
	for {
		kicked := false
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
			if kicked = true; fruitless > 1 {
				pause(ctx, min(lull, c.host.config.Intervals.Alerts))
			}
		case <-timer.C:
		}
		wait := jitter(c.host.config.Intervals.Alerts)
		found, err := c.round(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			c.trouble.Report(err, "sink", c.name)
			wait = backoff(failures, c.host.config.Intervals.Alerts)
		} else {
			failures = 0
			c.trouble.Over()
		}
		if found == alertBatch && err == nil {
			wait = 0
		}
		if fruitless++; found > 0 || !kicked {
			fruitless = 0
		}
		timer.Reset(wait)
	}
}

// round claims some messages and delivers them. Where it found alertBatch there may be more.
func (c *courier) round(ctx context.Context) (found int, err error) {
	h := c.host
	if len(c.strays) == cap(c.strays) {
		return 0, nil
	}
	session, err := h.presence.await(ctx)
	if err != nil {
		return 0, nil
	}
	callCtx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
	tasks, err := h.alerts.ClaimAlerts(callCtx, pawl.AlertClaim{Session: session, Sinks: []string{c.name}, Max: alertBatch, Storm: h.config.Storm})
	cancel()
	if err != nil {
		return 0, fmt.Errorf("claim alerts: %w", err)
	}
	results := make([]pawl.AlertResult, 0, len(tasks))
	for _, task := range tasks {
		results = append(results, c.deliver(task))
	}
	return len(tasks), c.settle(results)
}

// deliver makes one delivery with its budget.
func (c *courier) deliver(task pawl.AlertTask) pawl.AlertResult {
	h := c.host
	err := c.call(task)
	if err == nil {
		h.counters.delivered.Add(1)
		c.failing.Over()
		return pawl.AlertResult{Row: task.Row, Token: task.Token, Delivered: true}
	}
	h.counters.undeliver.Add(1)
	after := pawl.AlertBackoff(task.Attempt)
	text := textOf(err)
	c.failing.Report(errors.New(text), "sink", c.name, "alert", task.Key, "attempt", task.Attempt, "retry_after", after)
	return pawl.AlertResult{Row: task.Row, Token: task.Token, After: after, Error: text}
}

// call runs the sink in a goroutine of its own and leaves it behind when it ignores its ctx.
func (c *courier) call(task pawl.AlertTask) error {
	if len(c.strays) == cap(c.strays) {
		return fmt.Errorf("sink %s has %d deliveries that never returned", c.name, cap(c.strays))
	}
	ctx, cancel := context.WithTimeout(c.host.calls, pawl.AlertBudget)
	defer cancel()
	done := make(chan error, 1)
	c.strays <- struct{}{}
	go func() {
		err := pawl.ErrGoexit
		defer func() {
			<-c.strays
			done <- err
		}()
		err = deliverSafely(ctx, c.sink, task.Alert)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(ignoreGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
	}
	c.host.counters.sinkStrays.Add(1)
	go func() {
		<-done
		c.host.counters.sinkStrays.Add(-1)
	}()
	return fmt.Errorf("sink %s ignores its context: no answer within %s", c.name, pawl.AlertBudget+ignoreGrace)
}

func deliverSafely(ctx context.Context, sink pawl.Sink, alert pawl.Alert) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &pawl.PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	return sink.Deliver(ctx, alert)
}

// settle records what became of deliveries. What cannot be recorded is delivered again, under the same key, when the
// lease has ended.
func (c *courier) settle(results []pawl.AlertResult) error {
	if len(results) == 0 {
		return nil
	}
	var err error
	for try := range alertTries {
		callCtx, cancel := context.WithTimeout(c.host.calls, c.host.config.Intervals.Call)
		_, err = c.host.alerts.SettleAlerts(callCtx, results)
		cancel()
		if err == nil || !pause(c.host.calls, backoff(try+1, time.Second)) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("settle alerts: %w", err)
	}
	return nil
}
