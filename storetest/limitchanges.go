package storetest

import (
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

func limitLater(f *fixture) {
	session := f.host("a")
	all := f.puts(6, pawl.LimitKey("k"))
	running := f.claimExactly(session, 1)[0]
	f.setLimit(&pawl.Limit{Concurrency: 2})
	jobs := f.orders("beside what ran before", session, all[1:3]...)
	f.settle(session, end(running, pawl.Done{}))
	f.claimNone("it had no slot", session)
	f.settle(session, end(jobs[0], pawl.Retry{After: time.Hour}))
	f.orders("then", session, all[3])
	f.setLimit(&pawl.Limit{PerKey: 3})
	f.orders("by key", session, all[4])
}

func limitOrderedLater(f *fixture) {
	session := f.host("a")
	first, second := f.puts(2, pawl.OrderingKey("k")), f.puts(2, pawl.OrderingKey("l"))
	f.setLimit(&pawl.Limit{Concurrency: 1})
	job := f.orders("claimed", session, first[0])[0]
	f.settle(session, end(job, pawl.Done{}))
	job = f.orders("then", session, second[0])[0]
	f.settle(session, end(job, pawl.Done{}))
	f.settle(session, end(f.orders("and then", session, first[1])[0], pawl.Done{}))
	f.orders("at last", session, second[1])
}

func limitChanges(f *fixture) {
	session := f.host("a")
	all := f.limited(pawl.Limit{Concurrency: 1}, 8)
	jobs := f.orders("claimed", session, all[0])
	f.setLimit(&pawl.Limit{Concurrency: 4})
	jobs = append(jobs, f.orders("raised", session, all[1:4]...)...)
	f.setLimit(&pawl.Limit{Concurrency: 2})
	f.settle(session, end(jobs[0], pawl.Done{}), end(jobs[1], pawl.Done{}))
	f.claimNone("lowered, with two running", session)
	f.settle(session, end(jobs[2], pawl.Done{}))
	f.orders("then", session, all[4])
}

func limitTakenAway(f *fixture) {
	session := f.host("a")
	var want []pawl.ID
	for n := range 3 {
		want = append(want, f.limited(pawl.Limit{Concurrency: 2, PerKey: 1}, 4, pawl.LimitKey(string(rune('a'+n))))...)
	}
	got := ids(f.claim(session, 20))
	f.equal("number claimed", len(got), 2)
	f.setLimit(&pawl.Limit{})
	got = append(got, ids(f.claim(session, 20))...)
	slices.SortFunc(got, func(a, b pawl.ID) int { return slices.Index(want, a) - slices.Index(want, b) })
	f.equal("all", got, want)
}

func (f *fixture) hostWith(name string, limit pawl.Limit) pawl.SessionID {
	f.Helper()
	f.limit = limit
	return f.host(name)
}

func limitOverruled(f *fixture) {
	f.setLimit(&pawl.Limit{Concurrency: 1})
	session := f.hostWith("a", pawl.Limit{Concurrency: 3})
	all := f.limited(pawl.Limit{Concurrency: 3}, 5)
	f.orders("as it was set", session, all[0])
	f.hostWith("b", pawl.Limit{Concurrency: 4})
	f.claimNone("after another host was started", session)
	f.setLimit(nil)
	f.orders("as the last host states", session, all[1:4]...)
}

func limitRegistered(f *fixture) {
	first := f.hostWith("a", pawl.Limit{Concurrency: 1})
	all := f.limited(pawl.Limit{Concurrency: 2}, 4) // the host was there first
	f.orders("claimed", first, all[0])
	second := f.hostWith("b", pawl.Limit{Concurrency: 2})
	f.orders("by the host that was started last", second, all[1])
	third := f.hostWith("c", pawl.Limit{})
	f.orders("which states none any more", third, all[2:]...)
}

func limitsListed(f *fixture) {
	limits, err := f.store.Limits(f.ctx)
	f.ok("list limits", err)
	f.equal("number at first", len(limits), 0)
	limit := pawl.Limit{Concurrency: 2, PerKey: 1}
	session := f.hostWith("a", limit)
	f.limited(limit, 3, pawl.LimitKey("k"))
	f.limited(limit, 3, pawl.LimitKey("l"))
	f.claimExactly(session, 1)
	limits, err = f.store.Limits(f.ctx)
	f.ok("list limits", err)
	f.equal("limits", limits, []pawl.KindLimit{{Kind: workKind, Limit: limit, Stated: limit, Through: 2, Waiting: 4}})
	f.setLimit(&pawl.Limit{})
	limits, err = f.store.Limits(f.ctx)
	f.ok("list limits", err)
	f.equal("limits", limits, []pawl.KindLimit{{Kind: workKind, Stated: limit, Overruled: true, Through: 6}})
}

func limitAudit(f *fixture) {
	f.hostWith("a", pawl.Limit{Concurrency: 3})
	f.setLimit(&pawl.Limit{Concurrency: 1, Starts: 5})
	f.setLimit(nil)
	var got [][3]string
	for _, entry := range f.audit(pawl.AuditFilter{Action: pawl.ActionLimit}) {
		got = append(got, [3]string{entry.Who, entry.From, entry.To})
		f.equal("subject", entry.Subject, "kind "+workKind)
	}
	f.equal("trail", got, [][3]string{
		{operator("limit").Who, "1 at once, 5 in 1s, burst 5", "as stated: 3 at once"},
		{operator("limit").Who, "as stated: 3 at once", "1 at once, 5 in 1s, burst 5"},
		{"pawl", "stated none", "stated 3 at once"},
	})
	before := f.everything()
	for _, wrong := range []struct {
		kind  string
		limit *pawl.Limit
		by    pawl.By
	}{
		{"", &pawl.Limit{}, operator("limit")},
		{"a\x00b", &pawl.Limit{}, operator("limit")},
		{workKind, &pawl.Limit{Concurrency: -1}, operator("limit")},
		{workKind, &pawl.Limit{Burst: 1}, operator("limit")},
		{workKind, &pawl.Limit{}, pawl.By{}},
	} {
		f.fails("set an impossible limit", f.store.SetLimit(f.ctx, wrong.kind, wrong.limit, wrong.by), pawl.ErrInvalid)
	}
	f.equal("everything", f.everything(), before)
}
