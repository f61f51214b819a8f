package host_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

type fakeAlert struct {
	row       int64
	sink      string
	letter    pawl.ID
	attempt   int
	token     pawl.Token
	due       time.Time
	delivered bool
	err       string
}

func (f *fakeStore) bury(l pawl.DeadLetter) (fresh bool) {
	if _, there := f.letters[l.ID]; there {
		return false
	}
	l.DeadAt = time.Now()
	f.letters[l.ID] = l
	sinks := map[string]bool{}
	for _, s := range f.sessions {
		for _, sink := range s.info.Sinks {
			sinks[sink] = true
		}
	}
	for sink := range sinks {
		f.alerts = append(f.alerts, &fakeAlert{row: f.next(), sink: sink, letter: l.ID, due: time.Now()})
	}
	return true
}

func (f *fakeStore) Job(_ context.Context, id pawl.ID) (pawl.JobView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[id]; j != nil {
		return pawl.JobView{ID: id, State: pawl.JobWaiting}, nil
	}
	return pawl.JobView{}, pawl.ErrNotFound
}

func (f *fakeStore) Queues(context.Context) ([]pawl.QueueView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reserved := map[string]int{}
	for _, j := range f.jobs {
		if j.session != 0 {
			reserved[j.Queue]++
		}
	}
	var out []pawl.QueueView
	for name, n := range reserved {
		out = append(out, pawl.QueueView{Name: name, Reserved: n})
	}
	return out, nil
}

func (f *fakeStore) BusyQueues(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, j := range f.jobs {
		out = append(out, j.Queue)
	}
	return out, nil
}

func (f *fakeStore) Hosts(context.Context) ([]pawl.HostView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []pawl.HostView
	for id, s := range f.sessions {
		if !s.ended {
			out = append(out, pawl.HostView{HostInfo: s.info, Session: id, BeatAt: s.beatAt, Draining: s.last.Draining})
		}
	}
	return out, nil
}

func (f *fakeStore) RecordDeaths(_ context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]pawl.Recorded, len(letters))
	for i, l := range letters {
		out[i] = pawl.Recorded{ID: l.ID, New: f.bury(l)}
	}
	return out, nil
}

func (f *fakeStore) Letter(_ context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.letters[id]
	if !ok {
		return l, pawl.ErrNotFound
	}
	return l, nil
}

func (f *fakeStore) ClaimAlerts(_ context.Context, c pawl.AlertClaim) ([]pawl.AlertTask, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []pawl.AlertTask
	for _, a := range f.alerts {
		if len(out) < c.Max && slices.Contains(c.Sinks, a.sink) && !a.delivered && !a.due.After(time.Now()) {
			a.attempt++
			a.token, a.due = pawl.Token(f.next()), time.Now().Add(pawl.AlertLease)
			out = append(out, pawl.AlertTask{
				Row: a.row, Token: a.token, Sink: a.sink,
				Alert: pawl.Alert{Key: fmt.Sprint(a.letter, a.sink), Attempt: a.attempt, Letters: []pawl.DeadLetter{f.letters[a.letter]}},
			})
		}
	}
	return out, nil
}

func (f *fakeStore) SettleAlerts(_ context.Context, results []pawl.AlertResult) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = pawl.ErrLeaseLost
		for _, a := range f.alerts {
			if a.row == r.Row && a.token == r.Token {
				a.delivered, a.err, a.due, errs[i] = r.Delivered, r.Error, time.Now().Add(r.After), nil
			}
		}
	}
	return errs, nil
}

func (f *fakeStore) Sinks(context.Context) ([]pawl.SinkView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	views := map[string]pawl.SinkView{}
	for _, s := range f.sessions {
		for _, name := range s.info.Sinks {
			views[name] = pawl.SinkView{Name: name}
		}
	}
	for _, a := range f.alerts {
		view := views[a.sink]
		if a.delivered {
			view.Delivered++
		} else {
			view.Pending++
		}
		views[a.sink] = view
	}
	return slices.SortedFunc(maps.Values(views), func(a, b pawl.SinkView) int { return cmp.Compare(a.Name, b.Name) }), nil
}
