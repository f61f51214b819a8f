package app

import (
	"context"
	"errors"
	"sync"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

// errNoCommand and errCommandOver refuse a Store outside of a command's work.
var (
	errNoCommand   = errors.New("app.Store: the ctx is not that of a command of app.Options.Commands: ask with cmd.Context() in its Run or RunE")
	errCommandOver = errors.New("app.Store: the command has ended, and its store is closed")
)

// Store is for the program's own commands (Options.Commands): it opens the store that the flags, the environment and the
// configuration name, as every other command does, and returns what Options.Start gets. The ctx is cmd.Context(), in a Run
// or RunE. Asking again returns the same store. It is closed when the command ends.
//
// A store that is not there, or whose tables are of another version, is an error: a service's hosts make it, or `migrate up`.
// Only pawl.db in the current folder is made, where nobody named a store.
//
// It is a *sqlite.Store, a *postgres.Store, or, where --store is the URL of a server's API, an *api.Client. Each of them is a
// pawl.Operator, too; a transaction of one's own needs one of the first two.
func Store(ctx context.Context) (pawl.Enqueuer, error) {
	held, ok := ctx.Value(heldKey{}).(*heldStore)
	if !ok {
		return nil, errNoCommand
	}
	return held.get(ctx)
}

type heldKey struct{}

// heldStore is the store of one run of a command, once the command has asked for it.
type heldStore struct {
	program *program

	mu    sync.Mutex
	store store
	over  bool
}

func (h *heldStore) get(ctx context.Context) (pawl.Enqueuer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, errCommandOver
	}
	if h.store == nil {
		s, err := h.program.openToEnqueue(ctx, false)
		if err != nil {
			return nil, err
		}
		h.store = s
	}
	return h.store, nil
}

func (h *heldStore) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.store == nil {
		return nil
	}
	return h.store.Close()
}

// ownCommand sees to it that what goes wrong in a command of the service's own does not pass for a wrong command line, and
// that the command can ask for the store.
func (p *program) ownCommand(command *cobra.Command) *cobra.Command {
	run := command.RunE
	if plain := command.Run; run == nil && plain != nil {
		run = func(c *cobra.Command, args []string) error {
			plain(c, args)
			return nil
		}
	}
	if run != nil {
		command.RunE = func(c *cobra.Command, args []string) error {
			p.begun = true
			p.flags = stated(c.Flags()) // also where the command has a PersistentPreRun of its own, which hides the root's
			held := &heldStore{program: p}
			c.SetContext(context.WithValue(c.Context(), heldKey{}, held))
			return errors.Join(run(c, args), held.close())
		}
	}
	for _, verb := range command.Commands() {
		p.ownCommand(verb)
	}
	return command
}

// openToEnqueue opens the store for new jobs. One that nobody named is made where it is not there.
func (p *program) openToEnqueue(ctx context.Context, create bool) (store, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	access := existing
	if create || !settings.StoreStated() {
		access = making
	}
	return p.open(ctx, access)
}
