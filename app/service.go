package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/app/internal/service"
	"github.com/pawljobs/pawl/host"
	"github.com/spf13/cobra"
)

const serviceHelp = `Install this program as a service, and start and stop it: a unit of systemd, or a Windows service.

The service runs serve. It starts with the machine, again 5s after a failure, and has the time to drain when it is stopped. With
systemd it says when it is ready, that it is alive, and that it stops (Type=notify), runs as a user of its own, which is made while it
runs unless there is one of that name, and may write to /var/lib/NAME alone. As a Windows service it runs as LocalService.

Relative paths, in the configuration too, are those of the folder of the program.`

func (p *program) serviceCommand() *cobra.Command {
	var name, user string
	var dry bool
	install := &cobra.Command{
		Use:   "install",
		Short: "Install the service; what is stated by --config, --store, --connection, --listen and --grace goes along",
		Long: `Install the service, and have it start with the machine; start begins it now. --config, --store, --connection, --listen and --grace
go along, and nothing else: variables of this shell are not those of the service. A password has no place in it: state it by a
file in the configuration.

Without a store, that of the service is an SQLite file of its own: /var/lib/NAME/pawl.db, or pawl.db beside the program on Windows.`,
		Example: "  pawl service install --config /etc/pawl.yaml\n  pawl service install --config /etc/pawl.yaml --dry-run",
		Args:    needs("", 0, 0),
	}
	serveFlags(install)
	install.Flags().StringVar(&user, "user", "", "run as this `USER` (default: one of its own; on Windows LocalService)")
	install.Flags().BoolVar(&dry, "dry-run", false, "print the unit, and change nothing")
	install.RunE = p.onService(&name, func(ctx context.Context, m service.Manager, _ []string) error {
		d, err := p.definition(name, user)
		if err != nil {
			return err
		}
		text, err := m.Render(d)
		if err != nil || dry {
			p.printer.line(strings.TrimSuffix(text, "\n"))
			return err
		}
		if err := m.Install(ctx, d); err != nil {
			return err
		}
		p.printer.say("Service %s is installed. Start it now: %s service start%s", d.Name, p.invocation(), p.nameFlag(name))
		return nil
	})
	verb := func(use, short, done string, act func(ctx context.Context, m service.Manager, name string) error) *cobra.Command {
		command := &cobra.Command{Use: use, Short: short, Args: needs("", 0, 0)}
		command.RunE = p.onService(&name, func(ctx context.Context, m service.Manager, _ []string) error {
			if err := act(ctx, m, p.serviceName(name)); err != nil {
				return err
			}
			p.printer.say("Service %s is %s.", p.serviceName(name), done)
			return nil
		})
		return command
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Say how the service stands (exit status 8 where it does not run)",
		Args:  needs("", 0, 0),
	}
	status.RunE = p.onService(&name, func(ctx context.Context, m service.Manager, _ []string) error {
		state, err := m.State(ctx, p.serviceName(name))
		if err != nil {
			return err
		}
		p.showService(p.serviceName(name), state)
		if !state.Running {
			return withStatus(exitUnhealthy, errReported)
		}
		return nil
	})
	all := noun("service", "Install this program as a service, and start and stop it", serviceHelp,
		install,
		verb("uninstall", "Stop the service and remove it; its data stays", "removed", func(ctx context.Context, m service.Manager, name string) error { return m.Uninstall(ctx, name) }),
		verb("start", "Start the service, and wait until it is ready", "ready", func(ctx context.Context, m service.Manager, name string) error { return m.Start(ctx, name) }),
		verb("stop", "Stop the service, and wait until it has drained", "stopped", func(ctx context.Context, m service.Manager, name string) error { return m.Stop(ctx, name) }),
		status,
	)
	for _, command := range all.Commands() {
		command.Flags().StringVar(&name, "name", "", "the service's `NAME` (default: the program's)")
	}
	return all
}

// onService makes a command's work one on this machine's service manager.
func (p *program) onService(_ *string, work func(ctx context.Context, m service.Manager, args []string) error) func(*cobra.Command, []string) error {
	return p.doing(func(ctx context.Context, args []string) error {
		m, err := p.manager()
		if err != nil {
			return err
		}
		return work(ctx, m, args)
	})
}

// manager is that of this machine, unless a test has another.
func (p *program) manager() (service.Manager, error) {
	if p.services != nil {
		return p.services, nil
	}
	return service.System()
}

func (p *program) serviceName(name string) string {
	if name == "" {
		return p.title()
	}
	return name
}

func (p *program) nameFlag(name string) string {
	if name == "" {
		return ""
	}
	return " --name " + shellWord(name)
}

func (p *program) showService(name string, state service.State) {
	if p.json {
		_ = p.printer.object(struct {
			Name    string `json:"name"`
			Running bool   `json:"running"`
			PID     int    `json:"pid"`
			Text    string `json:"text"`
		}{name, state.Running, state.PID, state.Text})
		return
	}
	p.printer.field("Service", name)
	p.printer.field("State", state.Text)
	if state.PID > 0 {
		p.printer.field("Process", fmt.Sprint(state.PID))
	}
}

// definition is the service that this command line states.
func (p *program) definition(name, user string) (d service.Definition, err error) {
	settings, err := p.settings()
	if err != nil {
		return d, err
	}
	program, err := os.Executable()
	if err != nil {
		return d, err
	}
	d = service.Definition{
		Name: p.serviceName(name), Description: "Worker host " + p.serviceName(name), Program: program, User: user,
		Args: []string{"serve", "--service"}, Stop: settings.Drain.Host + serviceSlack,
	}
	if file := p.config; file != "" {
		if file, err = filepath.Abs(file); err != nil {
			return d, err
		}
		d.Args, d.Reads = append(d.Args, "--config", file), append(d.Reads, file)
	}
	for _, flag := range p.flags {
		switch flag.Name {
		case "--connection", "--listen", "--grace":
			d.Args = append(d.Args, flag.Name, flag.Value)
		}
	}
	return d, p.addStore(&d, settings)
}

// serviceSlack is what the service manager waits beyond the end of the shutdown's ladder.
const serviceSlack = 15 * time.Second

// addStore states the store, unless the configuration file does.
func (p *program) addStore(d *service.Definition, settings *config.Settings) error {
	for _, name := range []string{"PAWL_STORE", "PAWL_CONFIG"} {
		if p.env(name) != "" {
			return fmt.Errorf("%s is set here, and the service will not have it: state it by --store or --config: %w", name, pawl.ErrConflict)
		}
	}
	at, err := p.target()
	switch {
	case err != nil:
		return err
	case at.Engine == config.Remote: // serve would be refused each time that it is started
		return notOwn(at)
	case !settings.StoreStated() && runtime.GOOS == "linux":
		d.Args = append(d.Args, "--store", "sqlite:/var/lib/"+d.Name+"/pawl.db")
		return nil
	case at.Engine == config.SQLite:
		path, err := filepath.Abs(at.At)
		if err != nil {
			return err
		}
		d.Writes = append(d.Writes, filepath.Dir(path))
		if p.store != "" {
			d.Args = append(d.Args, "--store", "sqlite:"+path)
		}
	case p.store != "":
		if config.HasPassword(p.store) {
			return fmt.Errorf("a password must not stand in a service: name its file by connections.%s.password_file in the configuration: %w",
				settings.Connection, pawl.ErrConflict)
		}
		d.Args = append(d.Args, "--store", p.store)
	}
	return nil
}

// asService runs work as the service that this process is, if it is one.
func (p *program) asService(ctx context.Context, stop time.Duration, log *slog.Logger, work func(ctx context.Context, enter func(service.Phase)) error) error {
	if runtime.GOOS == "windows" && !p.service {
		return work(ctx, func(service.Phase) {})
	}
	return service.Run(ctx, p.title(), stop, log, work)
}

// follow tells the service manager when the host is ready and when it drains, at the latest when ctx is done.
func follow(ctx context.Context, h *host.Host, enter func(service.Phase)) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ready := false
	for {
		stats := h.Stats()
		switch {
		case stats.Draining:
			enter(service.Stopping)
			return
		case stats.Ready && !ready:
			ready = true
			enter(service.Ready)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			enter(service.Stopping)
			return
		}
	}
}

// toFolder makes the folder of the program the one that relative paths begin at.
func toFolder() error {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err == nil {
		err = os.Chdir(filepath.Dir(program))
	}
	if err != nil {
		return fmt.Errorf("go to the folder of the program: %w", err)
	}
	return nil
}
