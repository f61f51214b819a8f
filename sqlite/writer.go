package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	lib "modernc.org/sqlite/lib"
)

// What shares one transaction is bounded in calls and in bytes of envelopes.
const (
	groupLimit = 512
	groupBytes = 8 << 20
)

// writer is the one goroutine of a store that writes. Calls that wait when it begins a transaction share it and its
// fsync; each is answered after the commit.
type writer struct {
	db     *sql.DB
	conn   *sql.Conn
	place  place
	config Config
	wake   func() // after a commit that made jobs ready
	calls  chan *call
	quit   chan struct{}
	ended  chan struct{}
	once   sync.Once

	prepared map[string]*sql.Stmt
	ready    bool // the transaction under way has made jobs ready
	batches  bool // it may have ended batches
	gone     bool // the file is, and that was logged
}

// call is one piece of work for the writer. Calls with jobs are enqueues, which are stored with one statement for all
// of a group; the others bring a function.
type call struct {
	jobs     []pawl.NewJob
	enqueued []pawl.Enqueued
	run      func(ctx context.Context, w *writer) error

	since  time.Time   // when it was handed in
	taken  atomic.Bool // by the writer, or by a caller that gave up first
	err    error
	answer chan struct{}
}

func (c *call) size() (bytes int) {
	for i := range c.jobs {
		bytes += len(c.jobs[i].Envelope)
	}
	return bytes
}

func startWriter(db *sql.DB, conn *sql.Conn, place place, config Config, wake func()) *writer {
	w := &writer{
		db: db, conn: conn, place: place, config: config, wake: wake,
		calls: make(chan *call), quit: make(chan struct{}), ended: make(chan struct{}),
		prepared: map[string]*sql.Stmt{},
	}
	go w.loop()
	return w
}

// do hands a call to the writer and waits for its commit. A caller whose ctx ends before the call was begun gets the
// ctx's error and nothing was written; after that it waits for the outcome, which the file's lock and disk bound.
func (w *writer) do(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	c.answer, c.since = make(chan struct{}), time.Now()
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.quit:
		return pawl.ErrClosed
	}
	select {
	case <-c.answer:
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		<-c.answer
	}
	return c.err
}

// write runs one function in a transaction that it may share with other calls. It must not commit or roll back, and
// must leave no side effect outside the database before it is answered: after the failure of another call of its
// group it is run again.
func (s *Store) write(ctx context.Context, run func(ctx context.Context, w *writer) error) error {
	return s.writer.do(ctx, &call{run: run})
}

func (w *writer) close() error {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
	var errs []error
	for _, stmt := range w.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

func (w *writer) loop() {
	defer close(w.ended)
	for {
		select {
		case first := <-w.calls:
			w.serve(first)
		case <-w.quit:
			return
		}
	}
}

// serve does the first call and all that others hand in while the lock is being taken.
func (w *writer) serve(first *call) {
	ctx := context.Background() // a call that was begun is finished
	group, err := w.begin(ctx, []*call{first})
	if len(group) == 0 {
		return
	}
	if err != nil {
		finish(group, explain(err))
		return
	}
	begun := group[:0]
	for _, c := range group {
		if c.taken.CompareAndSwap(false, true) {
			begun = append(begun, c)
		}
	}
	err = w.commit(ctx, begun)
	if err == nil || len(begun) == 1 || errors.Is(err, errGone) {
		finish(begun, err)
		return
	}
	for _, c := range begun { // find the culprit: each by itself
		err := w.exec(ctx, "begin immediate")
		if err != nil {
			err = lockError(err)
		} else {
			err = w.commit(ctx, []*call{c})
		}
		finish([]*call{c}, err)
	}
}

// begin takes the write lock for a group, and adds to it what waits by then. Calls that have waited for the lock for
// the busy timeout are answered and leave the group.
func (w *writer) begin(ctx context.Context, group []*call) ([]*call, error) {
	for {
		runtime.Gosched() // those who were just answered hand in their next call
		err := w.exec(ctx, "begin immediate")
		if code(err) == lib.SQLITE_ERROR { // a rollback that failed has left its transaction open
			if err = w.exec(ctx, "rollback"); err == nil {
				err = w.exec(ctx, "begin immediate")
			}
		}
		group = w.gather(group)
		if err == nil || !isBusy(err) {
			return group, err
		}
		group = slices.DeleteFunc(group, func(c *call) bool {
			tooLong := time.Since(c.since) >= w.config.BusyTimeout*9/10 // SQLite gives up a little early
			if tooLong {
				finish([]*call{c}, lockError(err))
			}
			return tooLong
		})
		if len(group) == 0 {
			return nil, nil
		}
	}
}

// commit does the work of calls in the transaction that was begun, and ends it.
func (w *writer) commit(ctx context.Context, group []*call) error {
	w.ready, w.batches = false, false
	err := w.runGroup(ctx, group)
	if err == nil && w.batches {
		err = w.endBatches(ctx)
	}
	if err == nil {
		err = w.checkPlace()
	}
	if err == nil {
		err = w.exec(ctx, "commit")
	}
	if err != nil {
		if rollbackErr := w.exec(ctx, "rollback"); rollbackErr != nil && !isOver(rollbackErr) {
			w.config.Logger.Warn("roll back", "error", rollbackErr)
		}
		return err
	}
	if w.ready {
		w.wake()
	}
	return nil
}

// checkPlace fails while the file is gone, and logs that once.
func (w *writer) checkPlace() error {
	err := w.place.check()
	if err != nil && !w.gone {
		w.config.Logger.Warn("nothing can be written", "error", err)
	}
	w.gone = err != nil
	return err
}

// gather adds the calls that are waiting now.
func (w *writer) gather(group []*call) []*call {
	bytes := 0
	for _, c := range group {
		bytes += c.size()
	}
	for len(group) < groupLimit && bytes < groupBytes {
		select {
		case c := <-w.calls:
			group = append(group, c)
			bytes += c.size()
		default:
			return group
		}
	}
	return group
}

// finish answers calls.
func finish(group []*call, err error) {
	for _, c := range group {
		c.err = err
		close(c.answer)
	}
}

// runGroup does the work of a group: first all enqueues as one, then the rest in the order they came.
func (w *writer) runGroup(ctx context.Context, group []*call) error {
	var enqueues []*call
	var jobs []pawl.NewJob
	for _, c := range group {
		if c.run == nil {
			enqueues = append(enqueues, c)
			jobs = append(jobs, c.jobs...)
		}
	}
	if len(jobs) > 0 {
		results, err := enqueueJobs(ctx, w, jobs, now())
		if err != nil {
			return err
		}
		w.ready = true
		for _, c := range enqueues {
			c.enqueued, results = results[:len(c.jobs):len(c.jobs)], results[len(c.jobs):]
		}
	}
	for _, c := range group {
		if c.run == nil {
			continue
		}
		if err := c.run(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) exec(ctx context.Context, statement string) error {
	_, err := w.ExecContext(ctx, statement)
	return err
}

// ExecContext runs a statement that is prepared once. Its text must be a constant or one of few.
func (w *writer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := w.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// QueryContext is ExecContext for a statement that returns rows.
func (w *writer) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := w.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := w.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	w.prepared[query] = stmt
	return stmt, nil
}
