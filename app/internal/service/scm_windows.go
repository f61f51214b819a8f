package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// System is the service manager of this machine: the service control manager.
func System() (Manager, error) { return controlManager{}, nil }

type controlManager struct{}

func (controlManager) Render(d Definition) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	return fmt.Sprintf("service %s, started with Windows, as %s:\n  %s\nrestarted %s after a failure, stopped within %s\n",
		d.Name, account(d), windows.ComposeCommandLine(append([]string{d.Program}, d.Args...)), RestartAfter, d.Stop), nil
}

// account is whom it runs as: unless stated, one that may do little.
func account(d Definition) string {
	if d.User == "" {
		return `NT AUTHORITY\LocalService`
	}
	return d.User
}

func (c controlManager) Install(_ context.Context, d Definition) error {
	if err := d.check(); err != nil {
		return err
	}
	return c.with(func(m *mgr.Mgr) error {
		service, err := m.CreateService(d.Name, d.Program, mgr.Config{
			DisplayName: d.Name, Description: d.Description, StartType: mgr.StartAutomatic, ServiceStartName: account(d),
		}, d.Args...)
		if errors.Is(err, windows.ERROR_SERVICE_EXISTS) || errors.Is(err, windows.ERROR_DUPLICATE_SERVICE_NAME) {
			return alreadyInstalled(d.Name)
		}
		if err != nil {
			return fmt.Errorf("install service %s: %w", d.Name, err)
		}
		defer service.Close()
		if err := setUp(service, d); err != nil {
			return errors.Join(fmt.Errorf("install service %s: %w", d.Name, err), service.Delete())
		}
		return nil
	})
}

// setUp says what happens after a failure, also where the process ended in order, and how long a shutdown of Windows waits.
func setUp(service *mgr.Service, d Definition) error {
	again := mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: RestartAfter}
	patience := uint32(d.Stop.Milliseconds()) // SERVICE_PRESHUTDOWN_INFO
	return errors.Join(
		known("restart after a failure", service.SetRecoveryActions([]mgr.RecoveryAction{again, again, again}, uint32((24*time.Hour).Seconds()))),
		known("restart after an exit with an error", service.SetRecoveryActionsOnNonCrashFailures(true)),
		known("time for a shutdown", windows.ChangeServiceConfig2(service.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&patience)))),
	)
}

// known passes over a setting that the service manager has never heard of. That of every Windows has; that of Wine has not.
func known(setting string, err error) error {
	if err == nil || errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return nil
	}
	return fmt.Errorf("set %s: %w", setting, err)
}

func (c controlManager) Uninstall(ctx context.Context, name string) error {
	return c.withService(name, func(service *mgr.Service) error {
		if err := stop(ctx, service); err != nil {
			return fmt.Errorf("uninstall service %s: %w", name, err)
		}
		if err := service.Delete(); err != nil {
			return fmt.Errorf("uninstall service %s: %w", name, err)
		}
		return nil
	})
}

func (c controlManager) Start(ctx context.Context, name string) error {
	return c.withService(name, func(service *mgr.Service) error {
		err := service.Start()
		if err == nil {
			err = await(ctx, service, svc.Running)
		}
		if err != nil {
			return fmt.Errorf("start service %s: %w", name, err)
		}
		return nil
	})
}

func (c controlManager) Stop(ctx context.Context, name string) error {
	return c.withService(name, func(service *mgr.Service) error {
		if err := stop(ctx, service); err != nil {
			return fmt.Errorf("stop service %s: %w", name, err)
		}
		return nil
	})
}

func stop(ctx context.Context, service *mgr.Service) error {
	status, err := service.Query()
	if err != nil || status.State == svc.Stopped {
		return err
	}
	if _, err := service.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return err
	}
	return await(ctx, service, svc.Stopped)
}

// await asks until the service is in a state. One that stops where it should run has failed.
func await(ctx context.Context, service *mgr.Service, want svc.State) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := service.Query()
		switch {
		case err != nil:
			return err
		case status.State == want:
			return nil
		case status.State == svc.Stopped:
			return fmt.Errorf("it has stopped, with exit status %d: see its log", exitOf(status))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func exitOf(status svc.Status) uint32 {
	if status.Win32ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
		return status.ServiceSpecificExitCode
	}
	return status.Win32ExitCode
}

func (c controlManager) State(_ context.Context, name string) (state State, err error) {
	err = c.withService(name, func(service *mgr.Service) error {
		status, err := service.Query()
		if err != nil {
			return err
		}
		text := map[svc.State]string{
			svc.Stopped: "stopped", svc.StartPending: "starts", svc.StopPending: "drains", svc.Running: "runs",
		}[status.State]
		state = State{Installed: true, Running: status.State == svc.Running, PID: int(status.ProcessId), Text: text}
		return nil
	})
	return state, err
}

func (controlManager) with(act func(*mgr.Mgr) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connect to the service control manager, which takes an administrator: %w", err)
	}
	return errors.Join(act(m), m.Disconnect())
}

func (c controlManager) withService(name string, act func(*mgr.Service) error) error {
	if err := (Definition{Name: name, Program: `C:\`}).check(); err != nil {
		return err
	}
	return c.with(func(m *mgr.Mgr) error {
		service, err := m.OpenService(name)
		if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			return notInstalled(name)
		}
		if err != nil {
			return fmt.Errorf("open service %s: %w", name, err)
		}
		return errors.Join(act(service), service.Close())
	})
}

// Run runs work under the service control manager, which has started the program: it reports the phases, and while the service stops
// it reports every second that it goes on.
func Run(ctx context.Context, name string, stop time.Duration, log *slog.Logger, work func(ctx context.Context, enter func(Phase)) error) error {
	h := &handler{ctx: ctx, work: work, stop: stop, entered: make(chan Phase, 8)}
	if err := svc.Run(name, h); err != nil {
		if strings.Contains(err.Error(), "service controller") || errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
			return fmt.Errorf("--service is for the service control manager alone; without it the program runs here: %w", err)
		}
		return fmt.Errorf("run as service %s: %w", name, err)
	}
	return h.err
}

// handler is the program as the service control manager sees it.
type handler struct {
	ctx     context.Context
	work    func(ctx context.Context, enter func(Phase)) error
	stop    time.Duration
	entered chan Phase
	err     error
}

const (
	beat        = time.Second
	beatWithin  = 10 * time.Second // of one report that it goes on
	whileRuns   = svc.AcceptStop | svc.AcceptPreShutdown
	failed      = 1 // the exit status of a service whose work failed
	unspecified = 0
)

// Execute is called by package svc.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, changes chan<- svc.Status) (specific bool, status uint32) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- h.work(ctx, func(p Phase) {
			select {
			case h.entered <- p:
			default:
			}
		})
	}()
	state, checkpoint := svc.StartPending, uint32(1)
	report := func() {
		s := svc.Status{State: state}
		if state == svc.Running {
			s.Accepts = whileRuns
		} else {
			s.CheckPoint, s.WaitHint = checkpoint, uint32(beatWithin.Milliseconds())
			checkpoint++
		}
		changes <- s
	}
	report()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case h.err = <-ended:
			changes <- svc.Status{State: svc.StopPending, CheckPoint: checkpoint, WaitHint: uint32(beatWithin.Milliseconds())}
			if h.err != nil {
				return true, failed
			}
			return false, unspecified
		case p := <-h.entered:
			switch {
			case p == Ready && state == svc.StartPending:
				state = svc.Running
				report()
			case p == Stopping && state != svc.StopPending:
				state, checkpoint = svc.StopPending, 1
				report()
			}
		case <-tick.C:
			if state != svc.Running {
				report()
			}
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				changes <- r.CurrentStatus
			case svc.Stop, svc.PreShutdown, svc.Shutdown:
				cancel()
				if state != svc.StopPending {
					state, checkpoint = svc.StopPending, 1
					report()
				}
			}
		}
	}
}
