package postgres_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desktest"
	"github.com/pawljobs/pawl/postgres"
)

// While somebody else holds the letters, calls that need them are busy before long, and have changed nothing.
func TestLettersLockedAway(t *testing.T) {
	t.Parallel()
	d := openDeskWith(t, postgres.Config{LockTimeout: 50 * time.Millisecond})
	session := d.Register("mail")
	letter := desktest.Letter()
	d.Record(letter)
	kind := pawl.NewKind[int]("desk.work.v1", pawl.Policy{})
	for range 2 {
		_, err := kind.Enqueue(t.Context(), d, 1)
		d.OK("enqueue", err)
	}
	claimed, err := d.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind.Name()}, Max: 1})
	d.OK("claim", err)
	d.Equal("jobs", len(claimed.Jobs), 1)
	push, err := kind.New(t.Context(), d.Connection(), 2)
	d.OK("make job", err)
	death := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, claimed.Jobs[0], pawl.Dead{}, time.Time{}, errors.New("failed"))

	conn := d.Tables.(tables).connect(t)
	before := d.Tables.Dump(d)
	tx, err := conn.Begin(t.Context())
	d.OK("begin", err)
	_, err = tx.Exec(t.Context(), "lock table "+d.Tables.(tables).name("letter"))
	d.OK("lock", err)
	calls := map[string]error{}
	_, calls["record"] = d.RecordDeaths(t.Context(), desktest.Letters(2))
	_, calls["redrive"] = d.MoveLetters(t.Context(), []pawl.Move{{Letter: letter.ID, Action: pawl.ActionRedrive, By: desktest.Ada(), Push: &push}})
	_, calls["forget"] = d.ForgetLetter(t.Context(), letter.ID, desktest.Ada())
	_, calls["list"] = d.Letters(t.Context(), pawl.LetterFilter{}, pawl.Page{})
	_, calls["count"] = d.CountLetters(t.Context(), pawl.LetterFilter{})
	_, calls["alerts"] = d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 1})
	errs, err := d.Settle(t.Context(), session, []pawl.Settlement{{Reservation: claimed.Jobs[0].Reservation, Outcome: pawl.Dead{}, Letter: &death}})
	calls["settle"] = errors.Join(append(errs, err)...)
	d.OK("unlock", tx.Rollback(t.Context()))
	for call, err := range calls {
		if !errors.Is(err, pawl.ErrBusy) {
			t.Errorf("%s: %v", call, err)
		}
	}
	after := d.Tables.Dump(d)
	delete(before, "session") // settles and beats may have touched it
	delete(after, "session")
	d.Equal("tables", after, before)
	errs, err = d.Settle(t.Context(), session, []pawl.Settlement{{Reservation: claimed.Jobs[0].Reservation, Outcome: pawl.Dead{}, Letter: &death}})
	d.OK("settle", errors.Join(append(errs, err)...))
	_, err = d.Letter(t.Context(), death.ID)
	d.OK("letter", err)
}

// As long as the version of the switches is the same, so are they: a host that has seen it has missed no change.
func TestSwitchesAtOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	session := d.Register()
	changed := make(chan struct{})
	var changers, observers sync.WaitGroup
	for n := range 3 {
		changers.Go(func() {
			for i := range 60 {
				s := pawl.KindSwitch{Kind: "kind-" + strconv.Itoa(n), On: i%2 == 0}
				if err := d.SwitchKind(t.Context(), s, desktest.Ada()); err != nil {
					t.Errorf("switch: %v", err)
				}
			}
		})
	}
	seen := map[int64]pawl.Switches{}
	observers.Go(func() {
		for {
			select {
			case <-changed:
				return
			default:
			}
			before, err := d.Beat(t.Context(), session, pawl.Beat{})
			switches, err2 := d.Switches(t.Context())
			after, err3 := d.Beat(t.Context(), session, pawl.Beat{})
			if err := errors.Join(err, err2, err3); err != nil {
				t.Errorf("look at switches: %v", err)
				return
			}
			if before.Switches != after.Switches {
				continue
			}
			if known, ok := seen[after.Switches]; ok && !slices.Equal(known.Kinds, switches.Kinds) {
				t.Errorf("version %d stands for %v and for %v", after.Switches, known.Kinds, switches.Kinds)
				return
			}
			seen[after.Switches] = switches
		}
	})
	changers.Wait()
	close(changed)
	observers.Wait()
	if len(seen) < 5 {
		t.Errorf("only %d versions were seen", len(seen))
	}
}
