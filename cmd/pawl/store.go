package main

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
	"github.com/pawljobs/pawl/sqlite"
)

// store is all that the commands need of one.
type store interface {
	pawl.Enqueuer
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

// storePath is the file of the store. Errors name no more of a URL than its scheme: it may carry a password.
func (p *program) storePath() (string, error) {
	scheme, path, found := strings.Cut(p.storeName(), ":")
	switch {
	case !found:
		return "", withStatus(exitUsage, fmt.Errorf("store %q has no scheme: write sqlite:%s", scheme, shellWord(scheme)))
	case scheme != "sqlite":
		return "", withStatus(exitUsage, fmt.Errorf("stores of the kind %q are not supported by this program: only sqlite:PATH is", scheme))
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return "", withStatus(exitUsage, errors.New("the store names no file: write sqlite:PATH"))
	}
	return path, nil
}

func (p *program) open(ctx context.Context, access access) (store, error) {
	path, err := p.storePath()
	if err != nil {
		return nil, err
	}
	config := sqlite.Config{
		Connection: p.connection,
		NoMigrate:  access == existing,
		Logger:     slog.New(slog.NewTextHandler(p.talk, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if access == existing {
		if err := mustExist(path); err != nil {
			return nil, err
		}
	}
	return sqlite.Open(ctx, path, config)
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

// invocation is how a suggested command begins, so that it reaches the same store when it is copied.
func (p *program) invocation() string {
	words := []string{p.name}
	if p.store != "" {
		words = append(words, "--store", shellWord(escape(p.store)))
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
