package ops

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// switchboard tells which jobs are held back by an operator.
type switchboard struct {
	kinds  map[string]bool // whose switch is set
	paused map[string]bool
}

func newSwitchboard(s pawl.Switches) switchboard {
	b := switchboard{map[string]bool{}, map[string]bool{}}
	for _, k := range s.Kinds {
		b.kinds[k.Kind] = k.On
	}
	for _, q := range s.Queues {
		b.paused[q.Queue] = q.Paused
	}
	return b
}

// held says that a kind's jobs wait because nobody lets them run.
func (b switchboard) held(head pawl.QueueHead) bool {
	on, set := b.kinds[head.Kind]
	return set && !on || !set && head.StartsOff
}

// queueStatuses gathers what is known of queues.
func queueStatuses(live []pawl.HostView, heads []pawl.QueueHead, b switchboard) []QueueStatus {
	found := map[string]QueueStatus{}
	change := func(queue string, f func(*QueueStatus)) {
		q := found[queue]
		q.Queue = queue
		f(&q)
		found[queue] = q
	}
	for _, host := range live {
		for _, queue := range queuesOf(host) {
			change(queue, func(q *QueueStatus) { q.Hosts++ })
		}
	}
	for queue, paused := range b.paused {
		if paused {
			change(queue, func(q *QueueStatus) { q.Paused = true })
		}
	}
	for _, head := range heads {
		change(head.Queue, func(q *QueueStatus) {
			q.Kinds = append(q.Kinds, head)
			if !b.held(head) {
				q.OldestReady = max(q.OldestReady, head.OldestReady)
			}
		})
	}
	return slices.SortedFunc(maps.Values(found), func(a, b QueueStatus) int { return cmp.Compare(a.Queue, b.Queue) })
}

// queuesOf are the queues that a host serves, each once.
func queuesOf(h pawl.HostView) []string {
	var queues []string
	for _, server := range h.Servers {
		queues = append(queues, server.Queues...)
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// judgeServing looks for jobs that no live host takes.
func (s *Status) judgeServing(live []pawl.HostView, b switchboard, wait time.Duration) {
	report := func(oldest time.Duration, what What, subject, format string, args ...any) {
		if oldest < wait {
			s.note(NotServed, subject, format, args...)
			return
		}
		s.trouble(what, subject, format, args...)
	}
	if len(live) == 0 {
		for _, q := range s.Queues {
			if len(q.Kinds) > 0 {
				s.trouble(NoHost, "", "jobs wait, the oldest for %s, and no host is live", span(s.oldest()))
				return
			}
		}
		return
	}
	unknown := map[string]time.Duration{}
	for _, q := range s.Queues {
		if q.Hosts == 0 && len(q.Kinds) > 0 {
			oldest := slices.MaxFunc(q.Kinds, func(a, b pawl.QueueHead) int { return cmp.Compare(a.OldestReady, b.OldestReady) }).OldestReady
			report(oldest, QueueUnserved, q.Queue, "jobs wait in queue %s for %s, and no live host serves it", q.Queue, span(oldest))
			continue
		}
		for _, head := range q.Kinds {
			if !b.held(head) && !taken(live, head) {
				unknown[head.Kind] = max(unknown[head.Kind], head.OldestReady)
			}
		}
	}
	for _, kind := range worstFirst(unknown) {
		report(unknown[kind], KindUnserved, kind, "jobs of kind %s wait for %s, and no live host that serves their queue has registered it",
			kind, span(unknown[kind]))
	}
}

// oldest is how long any job has waited.
func (s *Status) oldest() (age time.Duration) {
	for _, q := range s.Queues {
		for _, head := range q.Kinds {
			age = max(age, head.OldestReady)
		}
	}
	return age
}

// taken says that some host takes the jobs of a kind from a queue.
func taken(live []pawl.HostView, head pawl.QueueHead) bool {
	return slices.ContainsFunc(live, func(h pawl.HostView) bool {
		return slices.Contains(h.Kinds, head.Kind) && slices.Contains(queuesOf(h), head.Queue)
	})
}

// judgeDelays looks for queues whose hosts do not keep up, and says what waits because nobody has switched it on.
func (s *Status) judgeDelays(live []pawl.HostView, b switchboard, wait time.Duration) {
	off := map[string]time.Duration{}
	for _, q := range s.Queues {
		var late time.Duration
		for _, head := range q.Kinds {
			if !b.held(head) && taken(live, head) {
				late = max(late, head.OldestReady)
			}
			if _, set := b.kinds[head.Kind]; head.StartsOff && !set {
				off[head.Kind] = max(off[head.Kind], head.OldestReady)
			}
		}
		if late >= wait && !q.Paused {
			s.trouble(QueueLate, q.Queue, "jobs wait in queue %s for %s, though there are live hosts that take them: %d",
				q.Queue, span(late), q.Hosts)
		}
	}
	for _, kind := range worstFirst(off) {
		s.note(KindNotOn, kind, "jobs of kind %s wait for %s: it starts off, and nobody has switched it on", kind, span(off[kind]))
	}
}

// worstFirst are kinds by how long they wait, and then by name.
func worstFirst(waits map[string]time.Duration) []string {
	return slices.SortedFunc(maps.Keys(waits), func(a, b string) int {
		return cmp.Or(cmp.Compare(waits[b], waits[a]), cmp.Compare(a, b))
	})
}
