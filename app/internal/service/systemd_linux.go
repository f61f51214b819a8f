package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// System is the service manager of this machine: systemd.
func System() (Manager, error) {
	return systemd{folder: "/etc/systemd/system", control: "systemctl"}, nil
}

// systemd manages units by systemctl.
type systemd struct {
	folder  string
	control string
}

func (s systemd) path(name string) string { return filepath.Join(s.folder, name+".service") }

func (s systemd) Render(d Definition) (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	return d.Unit(), nil
}

func (s systemd) Install(ctx context.Context, d Definition) error {
	text, err := s.Render(d)
	if err != nil {
		return err
	}
	if err := write(s.path(d.Name), text); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return alreadyInstalled(d.Name)
		}
		return fmt.Errorf("install service %s: %w", d.Name, err)
	}
	err = s.run(ctx, "daemon-reload")
	if err == nil {
		err = s.run(ctx, "enable", d.Name+".service")
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("install service %s: %w", d.Name, err), os.Remove(s.path(d.Name)))
	}
	return err
}

// write makes a file that was not there.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (s systemd) Uninstall(ctx context.Context, name string) error {
	if err := s.exists(name); err != nil {
		return err
	}
	err := s.run(ctx, "disable", "--now", name+".service")
	if err == nil {
		err = os.Remove(s.path(name))
	}
	if err == nil {
		err = s.run(ctx, "daemon-reload")
	}
	if err != nil {
		return fmt.Errorf("uninstall service %s: %w", name, err)
	}
	return nil
}

func (s systemd) Start(ctx context.Context, name string) error { return s.order(ctx, "start", name) }

func (s systemd) Stop(ctx context.Context, name string) error { return s.order(ctx, "stop", name) }

func (s systemd) order(ctx context.Context, verb, name string) error {
	if err := s.exists(name); err != nil {
		return err
	}
	if err := s.run(ctx, verb, name+".service"); err != nil {
		return fmt.Errorf("%s service %s: %w", verb, name, err)
	}
	return nil
}

func (s systemd) exists(name string) error {
	if err := (Definition{Name: name, Program: "/"}).check(); err != nil {
		return err
	}
	if _, err := os.Stat(s.path(name)); errors.Is(err, fs.ErrNotExist) {
		return notInstalled(name)
	} else if err != nil {
		return err
	}
	return nil
}

func (s systemd) State(ctx context.Context, name string) (State, error) {
	if err := s.exists(name); err != nil {
		return State{}, err
	}
	out, err := s.output(ctx, "show", name+".service", "--property=ActiveState,SubState,MainPID,StatusText")
	if err != nil {
		return State{}, fmt.Errorf("ask for service %s: %w", name, err)
	}
	return stateOf(out), nil
}

// stateOf reads the lines KEY=VALUE of systemctl show.
func stateOf(out string) State {
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	state := State{Installed: true, Running: values["ActiveState"] == "active" || values["ActiveState"] == "reloading"}
	state.PID, _ = strconv.Atoi(values["MainPID"])
	state.Text = values["ActiveState"] + " (" + values["SubState"] + ")"
	if said := values["StatusText"]; said != "" {
		state.Text += ": " + said
	}
	return state
}

func (s systemd) run(ctx context.Context, args ...string) error {
	_, err := s.output(ctx, args...)
	return err
}

func (s systemd) output(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, s.control, args...)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return "", fmt.Errorf("%s %s: %s", s.control, strings.Join(args, " "), text)
		}
		return "", fmt.Errorf("%s %s: %w", s.control, strings.Join(args, " "), err)
	}
	return out.String(), nil
}
