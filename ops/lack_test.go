package ops_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

func TestWhatAWaitingJobLacks(t *testing.T) {
	t.Parallel()
	job := pawl.JobView{Kind: "mail.v1", Queue: "2-default"}
	host := func(kind, queue string, beat time.Time) pawl.HostView {
		return pawl.HostView{HostInfo: pawl.HostInfo{Kinds: []string{kind}, Servers: []pawl.ServerInfo{{Queues: []string{queue}}}}, BeatAt: beat}
	}
	now := time.Now()
	for name, c := range map[string]struct {
		hosts   []pawl.HostView
		want    ops.Lack
		serving int
	}{
		"no host":        {nil, ops.LacksKind, 0},
		"another kind":   {[]pawl.HostView{host("post.v1", "2-default", now)}, ops.LacksKind, 1},
		"another queue":  {[]pawl.HostView{host("mail.v1", "3-bulk", now)}, ops.LacksQueue, 0},
		"on two hosts":   {[]pawl.HostView{host("mail.v1", "3-bulk", now), host("post.v1", "2-default", now)}, ops.LacksBoth, 1},
		"a silent host":  {[]pawl.HostView{host("mail.v1", "2-default", now.Add(-time.Hour))}, ops.LacksKind, 0},
		"one that takes": {[]pawl.HostView{host("mail.v1", "2-default", now)}, "", 1},
	} {
		got := ops.LackOf(c.hosts, job)
		if got != c.want || (got.Of(job) == "") != (c.want == "") {
			t.Errorf("%s: it lacks %q (%s), want %q", name, got, got.Of(job), c.want)
		}
		if n := ops.Serving(c.hosts, job.Queue); n != c.serving {
			t.Errorf("%s: %d hosts serve the queue, want %d", name, n, c.serving)
		}
	}
}
