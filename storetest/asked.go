package storetest

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
)

// What an operator asks of a host reaches it with its next beat, and no other host.
func askPromises() (promises []promise) {
	for _, o := range []order{
		{
			"go quiet", pawl.ActionQuiet, pawl.Hosts.QuietHost,
			func(r pawl.BeatReply) bool { return r.Quiet },
			func(h pawl.HostView) bool { return h.Quiet },
			func(h pawl.HostView) bool { return h.Drain },
		},
		{
			"drain", pawl.ActionDrain, pawl.Hosts.DrainHost,
			func(r pawl.BeatReply) bool { return r.Drain },
			func(h pawl.HostView) bool { return h.Drain },
			func(h pawl.HostView) bool { return h.Quiet },
		},
	} {
		promises = append(promises,
			promise{name: "a host is asked to " + o.name, check: o.given},
			promise{name: "only a live host is asked to " + o.name, check: o.refused})
	}
	return append(promises, promise{name: "a host that refuses to drain is not asked", check: drainRefused})
}

// order is something that an operator asks of a host.
type order struct {
	name   string
	action pawl.Action
	give   func(hosts pawl.Hosts, ctx context.Context, session pawl.SessionID, by pawl.By) error
	heard  func(pawl.BeatReply) bool
	listed func(pawl.HostView) bool
	other  func(pawl.HostView) bool // the other order
}

func (o order) given(f *fixture) {
	session, other := f.host("a"), f.host("b")
	f.equal("before", o.heard(f.beat(session, pawl.Beat{})), false)
	for range 2 {
		f.ok(o.name, o.give(f.store, f.ctx, session, operator("deploy")))
		for range 2 {
			f.equal("its beat", o.heard(f.beat(session, pawl.Beat{Draining: true})), true)
			f.equal("the other's beat", o.heard(f.beat(other, pawl.Beat{})), false)
		}
	}
	hosts, err := f.store.Hosts(f.ctx)
	f.ok("hosts", err)
	for _, host := range hosts {
		f.equal(o.name+" as listed", o.listed(host), host.Session == session)
		f.equal("the other order as listed", o.other(host), false)
	}
	entries := f.audit(pawl.AuditFilter{Subject: fmt.Sprint("host ", session)})
	f.equal("lines in the trail", len(entries), 1)
	f.equal("action", entries[0].Action, o.action)
	f.equal("by", pawl.By{Who: entries[0].Who, Door: entries[0].Door, Why: entries[0].Why}, operator("deploy"))
}

func (o order) refused(f *fixture) {
	observer, victim, closing := f.host("a"), f.host("b"), f.host("c")
	f.kill(observer, victim)
	f.closeSession(closing)
	for _, session := range []pawl.SessionID{victim, closing, closing + 1000, 0, -1} {
		f.fails(fmt.Sprint("session ", session), o.give(f.store, f.ctx, session, operator("deploy")), pawl.ErrNotFound)
	}
	f.fails("nobody", o.give(f.store, f.ctx, observer, pawl.By{}), pawl.ErrInvalid)
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{})), 0)
	f.equal("nothing was changed", o.heard(f.beat(observer, pawl.Beat{})), false)
}

func drainRefused(f *fixture) {
	info := hostInfo("api")
	info.NoDrain = true
	session, err := f.store.OpenSession(f.ctx, info)
	f.ok("open session", err)
	f.fails("drain", f.store.DrainHost(f.ctx, session, operator("deploy")), pawl.ErrConflict)
	f.equal("its beat", f.beat(session, pawl.Beat{}).Drain, false)
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{})), 0)
	hosts, err := f.store.Hosts(f.ctx)
	f.ok("hosts", err)
	f.equal("it is listed so", hosts[0].NoDrain, true)
	f.ok("quiet", f.store.QuietHost(f.ctx, session, operator("deploy")))
}
