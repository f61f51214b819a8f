package pawltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/pawltest"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type mailArgs struct {
	UserID int64 `json:"user_id"`
}

var (
	mail  = pawl.NewKind[mailArgs]("test.mail.v1", pawl.Policy{})
	other = pawl.NewKind[mailArgs]("test.other.v1", pawl.Policy{Queue: "1-critical"})
)

func put(t *testing.T, to pawl.Enqueuer, kind pawl.Kind[mailArgs], user int64, options ...pawl.Option) pawl.ID {
	t.Helper()
	enqueued, err := kind.Enqueue(t.Context(), to, mailArgs{user}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return enqueued.ID
}

func users(jobs []pawltest.Job[mailArgs]) (ids []int64) {
	for _, job := range jobs {
		ids = append(ids, job.Args.UserID)
	}
	return ids
}

func TestEnqueued(t *testing.T) {
	t.Parallel()
	store := pawltest.Open(t)
	put(t, store, mail, 1<<60+1)
	put(t, store, other, 2)
	put(t, store, mail, 3, pawl.Delay(time.Hour), pawl.Tags("eu"))
	jobs := pawltest.Enqueued(t, store, mail)
	if got, want := users(jobs), []int64{1<<60 + 1, 3}; !slices.Equal(got, want) {
		t.Fatalf("users %v, want %v", got, want)
	}
	late := jobs[1]
	if wait := late.RunAt.Sub(late.EnqueuedAt).Round(time.Second); late.State != pawl.JobScheduled || wait != time.Hour || !slices.Equal(late.Options.Tags, []string{"eu"}) {
		t.Errorf("the second is %s, in %s, with the tags %v", late.State, wait, late.Options.Tags)
	}
	if job := pawltest.EnqueuedOnce(t, store, other); job.Queue != "1-critical" || job.Args.UserID != 2 {
		t.Errorf("the other is %+v", job)
	}
}

// What a transaction has enqueued is seen in it, nowhere else, and is gone after its rollback.
func TestEnqueuedInATransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = db.Close(), store.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, store.Tx(tx), mail, 4)
	if job := pawltest.EnqueuedOnce(t, store.Tx(tx), mail); job.Args.UserID != 4 {
		t.Errorf("in the transaction: %+v", job)
	}
	if jobs := pawltest.Enqueued(t, store, mail); len(jobs) != 0 {
		t.Errorf("beside the transaction: %v", jobs)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if jobs := pawltest.Enqueued(t, store, mail); len(jobs) != 0 {
		t.Errorf("after the rollback: %v", jobs)
	}
}

func openPostgres(t *testing.T) (*postgres.Store, *pgx.Conn) {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set")
	}
	schema := "pawltest_" + strings.ToLower(pawl.NewID().String()[24:])
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := conn.Exec(ctx, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
		if err := errors.Join(err, conn.Close(ctx), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return store, conn
}

func TestOnPostgres(t *testing.T) {
	t.Parallel()
	store, conn := openPostgres(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, store.Tx(tx), mail, 5, pawl.Delay(time.Hour))
	job := pawltest.EnqueuedOnce(t, store.Tx(tx), mail)
	if wait := job.RunAt.Sub(job.EnqueuedAt).Round(time.Second); job.Args.UserID != 5 || wait != time.Hour {
		t.Errorf("in the transaction: %+v", job)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, store, mail, 6)
	mux := pawl.NewMux()
	pawl.Handle(mux, mail, func(context.Context, mailArgs) error { return pawl.Permanent(errors.New("no such user")) })
	if r := pawltest.Drain(t, store, mux); r.Attempts != 1 || len(r.Dead) != 1 || r.Left != 0 {
		t.Errorf("drained: %+v", r)
	}
}

// A drain runs the queues in their order, and what handlers enqueue; what is delayed is left, and so is what nobody handles.
func TestDrain(t *testing.T) {
	t.Parallel()
	store := pawltest.Open(t)
	mux := pawl.NewMux()
	var order []int64
	pawl.Handle(mux, mail, func(ctx context.Context, args mailArgs) error {
		order = append(order, args.UserID)
		if args.UserID < 3 {
			_, err := mail.Enqueue(ctx, store, mailArgs{args.UserID + 10})
			return err
		}
		return nil
	})
	put(t, store, mail, 1)
	put(t, store, mail, 2, pawl.InQueue("1-critical"))
	put(t, store, mail, 3, pawl.Delay(time.Hour))
	put(t, store, other, 4)
	r := pawltest.Drain(t, store, mux)
	if want := []int64{2, 1, 12, 11}; !slices.Equal(order, want) {
		t.Errorf("ran %v, want %v", order, want)
	}
	if r.Attempts != 4 || r.Succeeded != 4 || len(r.Dead) != 0 || r.Left != 2 {
		t.Errorf("report %+v", r)
	}
}

// In virtual time a drain goes through delays and all retries.
func TestDrainAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := pawltest.Open(t)
		mux := pawl.NewMux()
		began := time.Now()
		var tries []time.Duration
		pawl.Handle(mux, mail, func(_ context.Context, args mailArgs) error {
			if args.UserID == 1 {
				tries = append(tries, time.Since(began).Round(time.Hour/2))
				return errors.New("the mail server does not answer")
			}
			return nil
		})
		put(t, store, mail, 1)
		put(t, store, mail, 2, pawl.Delay(24*time.Hour))
		put(t, store, other, 3, pawl.Delay(time.Hour))
		r := pawltest.DrainAll(t, store, mux)
		if len(tries) != 6 || tries[5] < 4*time.Hour || tries[5] > 6*time.Hour {
			t.Errorf("tried at %v, want 6 times within about 5 hours", tries)
		}
		if r.Attempts != 7 || r.Succeeded != 1 || r.Left != 1 || len(r.Dead) != 1 {
			t.Errorf("report %+v", r)
		}
		if took := time.Since(began); took < 24*time.Hour || took > 25*time.Hour {
			t.Errorf("it took %s, want as long as the longest delay", took)
		}
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := pawltest.Open(t)
		mux := pawl.NewMux()
		pawl.Handle(mux, mail, func(ctx context.Context, args mailArgs) error {
			switch job := pawl.FromContext(ctx); {
			case args.UserID == 0:
				return pawl.Permanent(fmt.Errorf("user %d is unknown", args.UserID))
			case job.Attempt < 3:
				return errors.New("busy")
			}
			return nil
		})
		if job := pawltest.Run(t, store, mux, mail, mailArgs{7}); job.State != pawl.JobDone || job.Attempt != 3 {
			t.Errorf("job of a user: %s after %d attempts", job.State, job.Attempt)
		}
		job := pawltest.Run(t, store, mux, mail, mailArgs{})
		letter, err := store.Letter(t.Context(), job.Letter)
		if err != nil || job.State != pawl.JobDead || letter.Class != pawl.DeathPermanent || letter.Message != "user 0 is unknown" {
			t.Errorf("job of no user: %s, letter %s %q, %v", job.State, letter.Class, letter.Message, err)
		}
	})
}

// failing is a testing.TB that notes what it is told instead of failing.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func fatal(t *testing.T, call func(t testing.TB)) (text string) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if recovered := recover(); recovered != f {
			t.Errorf("it ended with %v, want a failed test", recovered)
		}
		text = f.text
	}()
	call(f)
	return ""
}

func TestWhatFails(t *testing.T) {
	t.Parallel()
	store := pawltest.Open(t)
	put(t, store, mail, 1)
	put(t, store, mail, 2)
	for _, c := range []struct {
		name, want string
		call       func(t testing.TB)
	}{
		{"two where one is wanted", "there are 2 jobs of kind test.mail.v1, want exactly one", func(t testing.TB) { pawltest.EnqueuedOnce(t, store, mail) }},
		{"none where one is wanted", "there are 0 jobs of kind test.other.v1", func(t testing.TB) { pawltest.EnqueuedOnce(t, store, other) }},
		{"args of another type", "read args", func(t testing.TB) {
			pawltest.Enqueued(t, store, pawl.NewKind[[]string](mail.Name(), pawl.Policy{}))
		}},
		{"a transaction that is none", "must be given", func(t testing.TB) { pawltest.Enqueued(t, store.Tx(nil), mail) }},
		{"a mux with a mistake", "twice", func(t testing.TB) {
			mux := pawl.NewMux()
			for range 2 {
				pawl.Handle(mux, mail, func(context.Context, mailArgs) error { return nil })
			}
			pawltest.Drain(t, store, mux)
		}},
		{"options that break a rule", "max tries", func(t testing.TB) {
			pawltest.Run(t, store, pawl.NewMux(), mail, mailArgs{}, pawl.MaxTries(-1))
		}},
	} {
		if text := fatal(t, c.call); !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want it to say %q", c.name, text, c.want)
		}
	}
}
