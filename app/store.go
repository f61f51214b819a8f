package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// store is all that operators' commands need of one; it may be far away.
type store interface {
	pawl.Operator
	pawl.Enqueuer
	Close() error
}

// ownStore is one that hosts work on.
type ownStore interface {
	pawl.Store
	pawl.Operator
	Close() error
}

// access is what a command may do to a store that is not there yet, or not up to date.
type access int

const (
	existing access = iota // it has to be there, with current tables
	making                 // it is made, and its tables brought up to date
	forHost                // the same, unless the settings leave that to others
)

// target is the store that was asked for.
func (p *program) target() (config.Target, error) {
	settings, err := p.settings()
	if err != nil {
		return config.Target{}, err
	}
	return settings.Picked().Target()
}

// open opens the store for a command, whose own errors say what went wrong: of the store's log, only warnings are shown.
func (p *program) open(ctx context.Context, access access) (store, error) {
	if at, err := p.target(); err != nil || at.Engine == config.Remote {
		return p.dial(ctx, at, err)
	}
	return p.openOwn(ctx, access)
}

// openOwn opens a store that has to be reached without a server.
func (p *program) openOwn(ctx context.Context, access access) (ownStore, error) {
	return p.openLogging(ctx, access, slog.New(slog.NewTextHandler(p.talk, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

func (p *program) openLogging(ctx context.Context, access access, log *slog.Logger) (ownStore, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	at, err := p.target()
	if err != nil {
		return nil, err
	}
	if at.Engine == config.Remote {
		return nil, notOwn(at)
	}
	c, connection := settings.Picked(), connectionOf(settings)
	leave := access == existing || access == forHost && !c.Migrate
	if at.Engine == config.Postgres {
		return opened(postgres.Open(ctx, at.At, postgres.Config{
			Connection: connection.Name, Policy: connection.Policy, Schema: c.Schema, Conns: c.Conns, Pooler: c.Pooler,
			History: c.History, Retention: c.Retention, NoMigrate: leave, Logger: log,
		}))
	}
	if leave {
		if err := mustExist(at.At); err != nil {
			return nil, err
		}
	}
	return opened(sqlite.Open(ctx, at.At, sqlite.Config{
		Connection: connection.Name, Policy: connection.Policy, History: c.History, Retention: c.Retention, NoMigrate: leave, Logger: log,
	}))
}

// notOwn refuses a server's API where the store itself is needed.
func notOwn(at config.Target) error {
	return withStatus(exitUsage, fmt.Errorf(
		"%s is the API of a server: this works on a store itself, such as sqlite:PATH or postgres://USER@HOST/DATABASE", at))
}

// opened is a store, or nil: not an interface that holds a nil pointer.
func opened[S ownStore](s S, err error) (ownStore, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// mustExist keeps a misspelt path from making an empty store that looks like good news.
func mustExist(path string) error {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return withStatus(exitNotFound, fmt.Errorf(
			"there is no store at %s: name another with --store or PAWL_STORE, or make this one with `pawl migrate up`", path))
	case err != nil:
		return fmt.Errorf("open store: %w", err)
	}
	return nil
}

// mustHold is mustExist for a database that is not Pawl's to make.
func mustHold(path string) error {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return withStatus(exitNotFound, fmt.Errorf("there is no database at %s", path))
	case err != nil:
		return fmt.Errorf("open database: %w", err)
	}
	return nil
}

// invocation is how a suggested command begins, so that it reaches the same store when it is copied; where the store's
// URL has a password, once that is filled in.
func (p *program) invocation() string {
	words := []string{p.name}
	if p.config != "" {
		words = append(words, "--config", shellWord(escape(p.config)))
	}
	if p.store != "" {
		name := p.store
		if at, err := p.target(); err == nil && at.Engine != config.SQLite {
			name = at.String()
		}
		words = append(words, "--store", shellWord(escape(name)))
	}
	if p.tokenFile != "" {
		words = append(words, "--token-file", shellWord(escape(p.tokenFile)))
	}
	if p.insecureHTTP {
		words = append(words, "--insecure-http")
	}
	if p.connection != "" && p.connection != "default" {
		words = append(words, "--connection", shellWord(escape(p.connection)))
	}
	return strings.Join(words, " ")
}

// pages walks a list page by page, so that a long one needs no memory.
type pages[T any] struct {
	limit int    // 0: all
	after string // where to go on; after the walk, where the rest begins: "" when there is none
	fetch func(ctx context.Context, page pawl.Page) ([]T, string, error)
}

const maxPage = 1000

func (g *pages[T]) all(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for left := g.limit; ; {
			page := pawl.Page{Limit: maxPage, After: g.after}
			if g.limit > 0 {
				page.Limit = min(left, maxPage)
			}
			rows, next, err := g.fetch(ctx, page)
			if err != nil {
				yield(none, err)
				return
			}
			g.after = next
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			left -= len(rows)
			if next == "" || g.limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// each is a list that is there already, as printList takes it.
func each[T any](rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}
