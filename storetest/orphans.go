package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Orphans are jobs that nobody can run: no session has registered their kind for Unseen, and they have been ready for
// Ready with the claiming session open all the while. A kind that was never registered counts as unseen for ever; one
// that a living session has registered is seen.
func orphanPromises() []promise {
	return []promise{
		{name: "a job that nobody knows is an orphan when it has waited", check: unknownIsOrphan},
		{name: "a job that is not ready for long is none", check: freshIsNone},
		{name: "a session that is not open for long finds none", check: freshSessionFindsNone},
		{name: "a kind that was registered lately has none", check: seenHasNone},
		{name: "a kind that a living session has registered has none", check: livingHasNone},
		{name: "with zero durations every kind not named has them at once", check: orphansAtOnce},
	}
}

const strayKind = "storetest.stray.v1"

func (f *fixture) stray() pawl.ID {
	f.Helper()
	return f.enqueue(f.jobOf(strayKind, pawl.Policy{}, `1`))[0]
}

func orphans(r *pawl.ClaimRequest) {
	r.Orphans = &pawl.Orphans{Unseen: 7 * 24 * time.Hour, Ready: 24 * time.Hour}
}

func unknownIsOrphan(f *fixture) {
	session := f.host("a")
	id := f.stray()
	f.put() // its kind is known
	f.claimNone("at once", session, orphans)
	f.pass(8 * 24 * time.Hour)
	f.beat(session, pawl.Beat{})
	f.equal("orphans", ids(f.claim(session, 5, orphans)), []pawl.ID{id})
}

func freshIsNone(f *fixture) {
	session := f.host("a")
	f.pass(8 * 24 * time.Hour)
	f.beat(session, pawl.Beat{})
	id := f.stray()
	f.claimNone("at once", session, orphans)
	f.pass(23 * time.Hour)
	f.claimNone("after 23 hours", session, orphans)
	f.pass(2 * time.Hour)
	f.equal("after 25 hours", ids(f.claim(session, 5, orphans)), []pawl.ID{id})
}

func freshSessionFindsNone(f *fixture) {
	id := f.stray()
	f.pass(8 * 24 * time.Hour)
	session := f.host("a")
	f.claimNone("just opened", session, orphans)
	f.pass(25 * time.Hour)
	f.equal("open for 25 hours", ids(f.claim(session, 5, orphans)), []pawl.ID{id})
}

func (f *fixture) strayHost() pawl.SessionID {
	f.Helper()
	info := hostInfo("stray")
	info.Kinds = []string{strayKind}
	session, err := f.store.OpenSession(f.ctx, info)
	f.ok("open session", err)
	return session
}

func seenHasNone(f *fixture) {
	session := f.host("a")
	f.closeSession(f.strayHost())
	id := f.stray()
	f.pass(6 * 24 * time.Hour)
	f.beat(session, pawl.Beat{})
	f.sweep(session)
	f.claimNone("seen 6 days ago", session, orphans)
	f.pass(2 * 24 * time.Hour)
	f.beat(session, pawl.Beat{})
	f.equal("seen 8 days ago", ids(f.claim(session, 5, orphans)), []pawl.ID{id})
}

func livingHasNone(f *fixture) {
	session, other := f.host("a"), f.strayHost()
	f.stray()
	f.pass(8 * 24 * time.Hour)
	f.beat(session, pawl.Beat{})
	f.beat(other, pawl.Beat{})
	f.claimNone("its kind is registered by a living session", session, orphans)
}

func orphansAtOnce(f *fixture) {
	session := f.host("a")
	f.put()
	id := f.stray()
	f.equal("orphans", ids(f.claim(session, 5, func(r *pawl.ClaimRequest) { r.Orphans = &pawl.Orphans{} })), []pawl.ID{id})
}
