package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// roles are principals of the server that live as long as a test, one for each role.
type roles map[postgres.Role]string

// freshRoles makes one principal for each role, with names that need their quotes.
func freshRoles(t testing.TB) roles {
	t.Helper()
	names := roles{}
	for _, role := range postgres.Roles() {
		names[role] = `Pawl's "` + string(role) + `" ` + strings.ToLower(pawl.NewID().String()[24:])
		quoted := pgx.Identifier{names[role]}.Sanitize()
		execute(t, server(t), `create role `+quoted)
		t.Cleanup(func() { execute(t, server(t), `drop owned by `+quoted+`; drop role `+quoted) })
	}
	return names
}

// grant gives the roles their rights in a schema.
func (r roles) grant(t testing.TB, config postgres.Config) {
	t.Helper()
	all := map[postgres.Role][]string{}
	for role, name := range r {
		all[role] = []string{name}
	}
	text, err := postgres.Grants{Schema: config.Schema, Retention: config.Retention > 0, Roles: all}.SQL()
	if err != nil {
		t.Fatal(err)
	}
	execute(t, server(t), text)
}

// url is how a role gets at the server.
func (r roles) url(t testing.TB, role postgres.Role) string {
	t.Helper()
	name := strings.NewReplacer(`\`, `\\`, ` `, `\ `).Replace(r[role])
	return server(t) + "&options=" + strings.ReplaceAll(url.QueryEscape("-c role="+name), "+", "%20")
}

// open is a store of a role, which must not migrate.
func (r roles) open(t testing.TB, role postgres.Role, config postgres.Config) inSchema {
	t.Helper()
	config.NoMigrate = true
	return openIn(t, r.url(t, role), config)
}

// byRoles is a store in which each act is that of the role with the least rights to it. What is not named here is a host's.
type byRoles struct {
	inSchema
	roles                             roles
	viewer, enqueuer, operator, admin inSchema
}

func (r roles) openAll(t testing.TB, config postgres.Config) byRoles {
	t.Helper()
	return byRoles{
		inSchema: r.open(t, postgres.RoleWorker, config), roles: r,
		viewer: r.open(t, postgres.RoleViewer, config), enqueuer: r.open(t, postgres.RoleEnqueuer, config),
		operator: r.open(t, postgres.RoleOperator, config), admin: r.open(t, postgres.RoleAdmin, config),
	}
}

func (b byRoles) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	for _, job := range jobs {
		if !job.Letter.IsZero() { // redrives are an operator's
			return b.operator.Enqueue(ctx, jobs)
		}
	}
	results, err := b.enqueuer.Enqueue(ctx, jobs)
	b.GiveTurns(ctx)
	return results, err
}

func (b byRoles) Jobs(ctx context.Context, f pawl.JobFilter, p pawl.Page) (pawl.JobPage, error) {
	return b.viewer.Jobs(ctx, f, p)
}

func (b byRoles) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	return b.viewer.Job(ctx, id)
}

func (b byRoles) Queues(ctx context.Context) ([]pawl.QueueView, error) { return b.viewer.Queues(ctx) }

func (b byRoles) BusyQueues(ctx context.Context) ([]string, error) { return b.viewer.BusyQueues(ctx) }

func (b byRoles) QueueHeads(ctx context.Context) ([]pawl.QueueHead, error) {
	return b.viewer.QueueHeads(ctx)
}

func (b byRoles) ClearQueue(ctx context.Context, queue string, by pawl.By) (int, error) {
	return b.operator.ClearQueue(ctx, queue, by)
}

func (b byRoles) CancelJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]pawl.Cancelled, error) {
	return b.operator.CancelJobs(ctx, ids, by)
}

func (b byRoles) RunJobsNow(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	return b.operator.RunJobsNow(ctx, ids, by)
}

func (b byRoles) DeleteJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	return b.operator.DeleteJobs(ctx, ids, by)
}

func (b byRoles) Letters(ctx context.Context, f pawl.LetterFilter, p pawl.Page) (pawl.LetterPage, error) {
	return b.viewer.Letters(ctx, f, p)
}

func (b byRoles) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	return b.viewer.Letter(ctx, id)
}

func (b byRoles) CountLetters(ctx context.Context, f pawl.LetterFilter) (int, error) {
	return b.viewer.CountLetters(ctx, f)
}

func (b byRoles) LetterGroups(ctx context.Context, f pawl.LetterFilter, limit int) (pawl.LetterGroups, error) {
	return b.viewer.LetterGroups(ctx, f, limit)
}

func (b byRoles) FindGroup(ctx context.Context, prefix string) (string, error) {
	return b.viewer.FindGroup(ctx, prefix)
}

func (b byRoles) MoveLetters(ctx context.Context, moves []pawl.Move) ([]error, error) {
	return b.operator.MoveLetters(ctx, moves)
}

func (b byRoles) ForgetLetter(ctx context.Context, id pawl.ID, by pawl.By) (bool, error) {
	return b.admin.ForgetLetter(ctx, id, by)
}

func (b byRoles) PruneLetters(ctx context.Context, f pawl.LetterFilter, by pawl.By) (pawl.Pruned, error) {
	return b.admin.PruneLetters(ctx, f, by)
}

func (b byRoles) EraseArgs(ctx context.Context, e pawl.Erase) (pawl.Erased, error) {
	return b.admin.EraseArgs(ctx, e)
}

func (b byRoles) Audit(ctx context.Context, f pawl.AuditFilter, p pawl.Page) (pawl.AuditPage, error) {
	return b.viewer.Audit(ctx, f, p)
}

func (b byRoles) SwitchKind(ctx context.Context, s pawl.KindSwitch, by pawl.By) error {
	return b.operator.SwitchKind(ctx, s, by)
}

func (b byRoles) ResetKind(ctx context.Context, kind string, by pawl.By) error {
	return b.operator.ResetKind(ctx, kind, by)
}

func (b byRoles) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	return b.operator.PauseQueue(ctx, p, by)
}

func (b byRoles) Switches(ctx context.Context) (pawl.Switches, error) { return b.viewer.Switches(ctx) }
func (b byRoles) Hosts(ctx context.Context) ([]pawl.HostView, error)  { return b.viewer.Hosts(ctx) }
func (b byRoles) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	return b.operator.QuietHost(ctx, session, by)
}

func (b byRoles) DrainHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	return b.operator.DrainHost(ctx, session, by)
}
func (b byRoles) Sinks(ctx context.Context) ([]pawl.SinkView, error) { return b.viewer.Sinks(ctx) }
func (b byRoles) AlertsOf(ctx context.Context, letter pawl.ID) ([]pawl.AlertView, error) {
	return b.viewer.AlertsOf(ctx, letter)
}

func (b byRoles) ForgetSink(ctx context.Context, sink string, by pawl.By) (int, error) {
	return b.operator.ForgetSink(ctx, sink, by)
}

func (b byRoles) Limits(ctx context.Context) ([]pawl.KindLimit, error) { return b.viewer.Limits(ctx) }

func (b byRoles) SetLimit(ctx context.Context, kind string, limit *pawl.Limit, by pawl.By) error {
	defer b.ForgetLimits()
	return b.operator.SetLimit(ctx, kind, limit, by)
}

func (b byRoles) CreateOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error) {
	return b.operator.CreateOperation(ctx, o)
}

func (b byRoles) Operations(ctx context.Context, f pawl.OperationFilter, p pawl.Page) (pawl.OperationPage, error) {
	return b.viewer.Operations(ctx, f, p)
}

func (b byRoles) Operation(ctx context.Context, id pawl.ID) (pawl.Operation, error) {
	return b.viewer.Operation(ctx, id)
}

func (b byRoles) OperationItems(ctx context.Context, id pawl.ID, f pawl.ItemFilter, p pawl.Page) (pawl.ItemPage, error) {
	return b.viewer.OperationItems(ctx, id, f, p)
}

func (b byRoles) ControlOperations(ctx context.Context, ids []pawl.ID, action pawl.Action, by pawl.By) ([]error, error) {
	return b.operator.ControlOperations(ctx, ids, action, by)
}

func (b byRoles) Batch(ctx context.Context, id pawl.ID) (pawl.Batch, error) {
	return b.viewer.Batch(ctx, id)
}

func (b byRoles) Batches(ctx context.Context, f pawl.BatchFilter, p pawl.Page) (pawl.BatchPage, error) {
	return b.viewer.Batches(ctx, f, p)
}

func (b byRoles) BatchMembers(ctx context.Context, id pawl.ID, p pawl.Page) (pawl.JobPage, error) {
	return b.viewer.BatchMembers(ctx, id, p)
}

func (b byRoles) Schedules(ctx context.Context, f pawl.ScheduleFilter, p pawl.Page) (pawl.SchedulePage, error) {
	return b.viewer.Schedules(ctx, f, p)
}

func (b byRoles) Schedule(ctx context.Context, name string) (pawl.ScheduleView, error) {
	return b.viewer.Schedule(ctx, name)
}

func (b byRoles) AddSchedule(ctx context.Context, s pawl.Schedule, by pawl.By) error {
	return b.operator.AddSchedule(ctx, s, by)
}

func (b byRoles) SetSchedule(ctx context.Context, s pawl.Schedule, by pawl.By) error {
	return b.operator.SetSchedule(ctx, s, by)
}

func (b byRoles) DeleteSchedule(ctx context.Context, name string, by pawl.By) error {
	return b.operator.DeleteSchedule(ctx, name, by)
}

func (b byRoles) PauseSchedule(ctx context.Context, name string, paused bool, by pawl.By) error {
	return b.operator.PauseSchedule(ctx, name, paused, by)
}

func (b byRoles) RunSchedule(ctx context.Context, name string, by pawl.By) (pawl.ID, error) {
	return b.operator.RunSchedule(ctx, name, by)
}

// What is promised holds where each act is that of the role with the least rights to it. These groups make every sort of
// act; that each right is there and needed is TestRights' to say.
func TestConformanceByRoles(t *testing.T) {
	server(t)
	r, lent := freshRoles(t), newSchemas(t)
	var granted sync.Map // by schema: whether with the rights to prune
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) storetest.Store {
			config := quiet(configOf(o, lent.lend(t)))
			config.Conns = 2
			openIn(t, server(t), config)
			prunes := config.Retention > 0
			if before, known := granted.Swap(config.Schema, prunes); !known || before != prunes {
				r.grant(t, config)
			}
			return r.openAll(t, config)
		},
		Reopen: func(t testing.TB, s storetest.Store) storetest.Store {
			b := s.(byRoles)
			return b.roles.openAll(t, b.config)
		},
		Backdate: func(t testing.TB, s storetest.Store, by time.Duration) {
			backdate(t, inSchema{url: server(t), config: s.(byRoles).config}, by)
		},
		Begin: func(t testing.TB, s storetest.Store) storetest.Tx { return begin(t, s.(byRoles).enqueuer) },
		Only: []string{
			"Enqueue", "Transaction", "Limits", "Settle", "History", "Death", "Moves", "Prune", "Erase", "Redrive", "Operations", "Controls",
			"JobActs", "Batches", "Batch lists", "Timetables",
		},
	})
}
