package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/builtin"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/host"
)

// hosting is a host of this program, and what can change while it runs.
type hosting struct {
	program  *program
	started  *config.Settings // what the host was made with
	current  *config.Settings // what is in force
	level    slog.LevelVar
	log      *slog.Logger
	mux      *pawl.Mux
	requests *builtin.HTTP     // nil without the built-in kinds
	commands *builtin.Commands // nil without a command
	sinks    map[string]*changingSink
	host     *host.Host
	api      *api.Handler // nil without a token
}

// prepare makes all that needs no store.
func (p *program) prepare() (*hosting, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	g := &hosting{program: p, started: settings, current: settings, mux: p.mux, sinks: map[string]*changingSink{}}
	if g.mux == nil {
		g.mux = pawl.NewMux()
	}
	g.setLevel(settings)
	g.log = p.logger(settings, &g.level)
	for _, name := range slices.Sorted(maps.Keys(settings.Sinks)) {
		sink, err := settings.Sink(name)
		if err != nil {
			return nil, err
		}
		g.sinks[name] = &changingSink{name: name}
		g.sinks[name].now.Store(&sink)
	}
	if p.options.BuiltIn {
		err = g.addBuiltIn(settings)
	}
	return g, err
}

func (g *hosting) addBuiltIn(settings *config.Settings) (err error) {
	targets, err := settings.Targets()
	if err != nil {
		return err
	}
	if g.requests, err = builtin.NewHTTP(targets, g.log); err != nil {
		return err
	}
	pawl.Handle(g.mux, builtin.HTTPRequest, g.requests.Handle)
	if len(settings.CommandRun.Commands) == 0 {
		return nil
	}
	if g.commands, err = builtin.NewCommands(settings.Commands()); err != nil {
		return err
	}
	pawl.Handle(g.mux, builtin.CommandRun, g.commands.Handle)
	return nil
}

func (g *hosting) setLevel(settings *config.Settings) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(settings.Log.Level)) // it was checked
	g.level.Set(level)
}

// logger writes what a program that runs on has to tell.
func (p *program) logger(settings *config.Settings, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if settings.Log.Format == "json" || p.json {
		return slog.New(slog.NewJSONHandler(p.talk, options))
	}
	return slog.New(slog.NewTextHandler(p.talk, options))
}

// hostConfig is what the settings, and the program, say of the host.
func (g *hosting) hostConfig() host.Config {
	c := g.started.HostConfig()
	c.Version, _ = built()
	c.Logger = g.log
	c.Schedules = g.program.options.Schedules
	c.Classifiers = append(slices.Clone(g.program.options.Classifiers), classify.Default())
	if len(g.mux.Kinds()) == 0 {
		c.Servers = []host.Server{}
	}
	for _, name := range slices.Sorted(maps.Keys(g.sinks)) {
		c.Sinks = append(c.Sinks, g.sinks[name])
	}
	c.Sinks = append(c.Sinks, g.program.options.Sinks...)
	c.Sinks = append(c.Sinks, alert.Log(g.log))
	return c
}

// run works on an open store until it has to stop, and does not close it. What ready begins is let go when all jobs have
// ended; not after an abort, since the process ends and handlers may still use it.
func (g *hosting) run(ctx context.Context, s ownStore, c host.Config, ready func(*host.Host) (letGo func(), err error)) (err error) {
	if start := g.program.options.Start; start != nil {
		stop, failed := start(ctx, s)
		if failed != nil {
			return fmt.Errorf("start: %w", failed)
		}
		defer func() {
			if stop != nil && !errors.Is(err, host.ErrAborted) {
				err = errors.Join(err, stop())
			}
		}()
	}
	if g.host, err = host.New(s, g.mux, c); err != nil {
		return err
	}
	g.hold()
	letGo, err := ready(g.host)
	if err != nil {
		if letGo != nil {
			letGo()
		}
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { g.watch(watching) })
	err = g.host.RunUntilSignal(ctx)
	stop()
	watch.Wait()
	if errors.Is(err, host.ErrAborted) {
		return err
	}
	letGo()
	if g.requests != nil {
		g.requests.Close()
	}
	return err
}

// hold leaves to other hosts what this one is not to run.
func (g *hosting) hold() {
	off := slices.Clone(g.current.Kinds.Off)
	for _, kind := range off {
		if !g.mux.Handles(kind) {
			g.log.Warn("kinds.off names a kind that this program does not run", "kind", kind)
		}
	}
	if g.commands != nil && len(g.current.CommandRun.Commands) == 0 {
		off = append(off, builtin.CommandRun.Name())
	}
	g.host.Hold(off)
}

// apply takes new settings into force, as far as that goes without a restart.
func (g *hosting) apply(next *config.Settings) {
	live, _ := g.current.Changes(next)
	_, restart := g.started.Changes(next)
	if g.requests != nil {
		targets, err := next.Targets()
		if err == nil {
			err = g.requests.Allow(targets)
		}
		g.refused("http_request", err)
	}
	switch {
	case g.commands != nil:
		g.refused("command_run", g.commands.Allow(next.Commands()))
	case len(next.CommandRun.Commands) > 0:
		restart = append(restart, "command_run (its first command)")
	}
	switch {
	case g.api != nil:
		g.refused("api.tokens", g.api.Allow(tokensOf(next)))
	case len(next.API.Tokens) > 0:
		restart = append(restart, "api.tokens (the first one)")
	}
	for name, sink := range g.sinks {
		if _, stays := next.Sinks[name]; !stays {
			continue
		}
		made, err := next.Sink(name)
		if g.refused("sinks."+name, err); err == nil {
			sink.now.Store(&made)
		}
	}
	g.setLevel(next)
	g.current = next
	g.hold()
	g.log.Info("configuration read again", "changed", strings.Join(live, ", "))
	if len(restart) > 0 {
		g.log.Warn("the new configuration needs a restart: " + strings.Join(slices.Compact(restart), ", "))
	}
}

// refused says what could not be taken, though it was checked.
func (g *hosting) refused(what string, err error) {
	if err != nil {
		g.log.Warn("the configuration of "+what+" stays as it was", "error", oneLine(err))
	}
}

// changingSink is a channel whose settings change while hosts know it.
type changingSink struct {
	name string
	now  atomic.Pointer[pawl.Sink]
}

func (s *changingSink) Name() string { return s.name }

func (s *changingSink) Deliver(ctx context.Context, a pawl.Alert) error {
	return (*s.now.Load()).Deliver(ctx, a)
}
