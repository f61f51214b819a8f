package sqlite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// A death is whole or has not happened: wherever its writing is cut off, the job is still reserved and there is
// neither letter nor alert; when the obstacle is gone, the same settlement makes all of them.
func TestDeathIsOneTransaction(t *testing.T) {
	t.Parallel()
	for _, obstacle := range []string{
		"insert on pawl_letter", "insert on pawl_evidence", "insert on pawl_alert", "insert on pawl_done", "delete on pawl_job",
	} {
		t.Run(obstacle, func(t *testing.T) {
			t.Parallel()
			store := openFresh(t, storetest.Options{})
			db := openBeside(t, store)
			const kind = "dies.v1"
			enqueue(t, store, kind)
			session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{kind}, Sinks: []string{"mail", "hook"}})
			if err != nil {
				t.Fatal(err)
			}
			jobs := claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 1})
			letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, jobs[0], pawl.Dead{}, time.Now(), errors.New("failed"))
			settle := func() error {
				errs, err := store.Settle(t.Context(), session, []pawl.Settlement{{Reservation: jobs[0].Reservation, Outcome: pawl.Dead{}, Letter: &letter}})
				if err != nil {
					return err
				}
				return errs[0]
			}
			look := func() string {
				return fmt.Sprintf("reserved %d, letters %d, evidence %d, alerts %d, ended %d",
					count(t, db, `select count(*) from pawl_job where session is not null`), count(t, db, `select count(*) from pawl_letter`),
					count(t, db, `select count(*) from pawl_evidence`), count(t, db, `select count(*) from pawl_alert`),
					count(t, db, `select count(*) from pawl_done`))
			}
			if _, err := db.ExecContext(t.Context(), `create trigger cut before `+obstacle+` begin select raise(abort, 'cut off here'); end`); err != nil {
				t.Fatal(err)
			}
			if err := settle(); err == nil {
				t.Error("the death was settled although it could not be written")
			}
			if got, want := look(), "reserved 1, letters 0, evidence 0, alerts 0, ended 0"; got != want {
				t.Errorf("cut off: %s, want %s", got, want)
			}
			if _, err := db.ExecContext(t.Context(), `drop trigger cut`); err != nil {
				t.Fatal(err)
			}
			if err := settle(); err != nil {
				t.Error(err)
			}
			if got, want := look(), "reserved 0, letters 1, evidence 1, alerts 2, ended 1"; got != want {
				t.Errorf("when mended: %s, want %s", got, want)
			}
		})
	}
}
