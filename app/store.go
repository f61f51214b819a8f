package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// store is all that the commands need of one.
type store interface {
	pawl.Store
	pawl.Operator
	Close() error
}

// access is what a command may do to a store that is not there yet, or not up to date.
type access int

const (
	existing access = iota // it has to be there, with current tables
	making                 // it is made, and its tables brought up to date
)

const defaultStore = "sqlite:pawl.db"

// storeName is the store that was asked for.
func (p *program) storeName() string {
	for _, name := range []string{p.store, p.env("PAWL_STORE")} {
		if name != "" {
			return name
		}
	}
	return defaultStore
}

// byDefault says that nobody has named a store.
func (p *program) byDefault() bool { return p.store == "" && p.env("PAWL_STORE") == "" }

// target is the store that was asked for, by the kind of its engine.
type target struct {
	engine string // sqlite, postgres
	at     string // a file's path, a database's URL
}

// String is the store as it may be shown: without a password.
func (t target) String() string {
	if t.engine == "sqlite" {
		return "sqlite:" + t.at
	}
	return redacted(t.at)
}

// redacted is a URL without its passwords.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "postgres:…"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(name, "password") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// target reads the name of the store. Errors name no more of a URL than its scheme: it may carry a password.
func (p *program) target() (target, error) {
	scheme, path, found := strings.Cut(p.storeName(), ":")
	switch {
	case !found:
		return target{}, withStatus(exitUsage, fmt.Errorf("store %q has no scheme: write sqlite:%s", scheme, shellWord(scheme)))
	case scheme == "postgres" || scheme == "postgresql":
		if !strings.HasPrefix(path, "//") {
			return target{}, withStatus(exitUsage, fmt.Errorf("the store is no URL: write %s://USER@HOST/DATABASE", scheme))
		}
		return target{"postgres", p.storeName()}, nil
	case scheme != "sqlite":
		return target{}, withStatus(exitUsage, fmt.Errorf(
			"stores of the kind %q are not supported by this program: sqlite:PATH and postgres://… are", scheme))
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return target{}, withStatus(exitUsage, errors.New("the store names no file: write sqlite:PATH"))
	}
	return target{"sqlite", path}, nil
}

// open opens the store for a command, whose own errors say what went wrong: of the store's log, only warnings are shown.
func (p *program) open(ctx context.Context, access access) (store, error) {
	return p.openLogging(ctx, access, slog.New(slog.NewTextHandler(p.talk, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

func (p *program) openLogging(ctx context.Context, access access, log *slog.Logger) (store, error) {
	at, err := p.target()
	if err != nil {
		return nil, err
	}
	if at.engine == "postgres" {
		return opened(postgres.Open(ctx, at.at, postgres.Config{Connection: p.connection, NoMigrate: access == existing, Logger: log}))
	}
	if access == existing {
		if err := mustExist(at.at); err != nil {
			return nil, err
		}
	}
	return opened(sqlite.Open(ctx, at.at, sqlite.Config{Connection: p.connection, NoMigrate: access == existing, Logger: log}))
}

// opened is a store, or nil: not an interface that holds a nil pointer.
func opened[S store](s S, err error) (store, error) {
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

// invocation is how a suggested command begins, so that it reaches the same store when it is copied; where the store's
// URL has a password, once that is filled in.
func (p *program) invocation() string {
	words := []string{p.name}
	if p.store != "" {
		name := p.store
		if at, err := p.target(); err == nil && at.engine != "sqlite" {
			name = at.String()
		}
		words = append(words, "--store", shellWord(escape(name)))
	}
	if p.connection != "default" {
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
