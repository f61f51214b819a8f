//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Nothing here outlives a crash of the machine, so nothing is flushed: a server that is killed has written what it
// has committed.
var settings = []string{
	"fsync=off", "full_page_writes=off", "max_connections=100", "shared_buffers=64MB", "listen_addresses=",
	"log_min_messages=fatal", "restart_after_crash=off",
}

// database is a private PostgreSQL in a folder.
type database struct {
	bin     string
	folder  string
	owner   *syscall.Credential // nil: whoever runs this program
	command *exec.Cmd
	ended   chan struct{}
}

// startDatabase makes a cluster and starts a server on it. Its programs are those that PAWL_TEST_PGBIN names or that
// Debian has installed; else the command need is to install them.
func startDatabase(ctx context.Context, need string) (*database, error) {
	bin, err := programs(ctx, need)
	if err != nil {
		return nil, err
	}
	d := &database{bin: bin}
	err = d.initialise(ctx)
	if err == nil {
		err = d.start(ctx)
	}
	if err != nil {
		d.remove()
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	return d, nil
}

func programs(ctx context.Context, need string) (string, error) {
	if bin := os.Getenv("PAWL_TEST_PGBIN"); bin != "" {
		return bin, nil
	}
	for try := range 2 {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
		}
		if program, err := exec.LookPath("initdb"); err == nil {
			program, err = filepath.EvalSymlinks(program)
			return filepath.Dir(program), err
		}
		if try > 0 || need == "" {
			break
		}
		command := exec.CommandContext(ctx, need, "initdb", "postgresql")
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Run(); err != nil {
			return "", fmt.Errorf("install postgresql: %w", err)
		}
	}
	return "", errors.New("postgresql's initdb is not found: install the package postgresql")
}

// version is that of the folder above bin.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

func (d *database) initialise(ctx context.Context) (err error) {
	if d.folder, err = os.MkdirTemp("", "pawl-chaos-db-"); err != nil { // a short name: there is a socket in it
		return err
	}
	if d.owner, err = unprivileged(); err != nil {
		return err
	}
	if d.owner != nil {
		if err := os.Chown(d.folder, int(d.owner.Uid), int(d.owner.Gid)); err != nil {
			return err
		}
	}
	command := exec.CommandContext(ctx, filepath.Join(d.bin, "initdb"), "-D", d.data(), "-A", "trust", "-U", "pawl", "-E", "UTF8", "--locale=C", "-N")
	command.Dir, command.SysProcAttr = d.folder, &syscall.SysProcAttr{Credential: d.owner}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (d *database) data() string { return filepath.Join(d.folder, "data") }

// url leads to the server without a proxy.
func (d *database) url() string { return "postgres://pawl@/postgres?host=" + d.folder }

// through leads to it by a proxy's address.
func (d *database) through(address string) string {
	return "postgres://pawl@" + address + "/postgres?sslmode=disable"
}

func (d *database) dial() (net.Conn, error) {
	return net.DialTimeout("unix", filepath.Join(d.folder, ".s.PGSQL.5432"), 5*time.Second)
}

// start runs the server and waits until it answers.
func (d *database) start(ctx context.Context) error {
	var says bytes.Buffer
	args := []string{"-D", d.data(), "-k", d.folder}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	command := exec.Command(filepath.Join(d.bin, "postgres"), args...)
	command.Dir, command.Stdout, command.Stderr = d.folder, &says, &says
	// Should this program be killed, the server ends too.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: d.owner, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	d.command, d.ended = command, ended
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := pgx.Connect(ctx, d.url())
		if err == nil {
			return conn.Close(ctx)
		}
		switch {
		case closed(ended):
			return fmt.Errorf("the server ended: %s", says.String())
		case time.Now().After(deadline) || !pause(ctx, 20*time.Millisecond):
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// crash ends every process of the server at once, without a checkpoint: pg_ctl's -m immediate.
func (d *database) crash() {
	if d.command == nil {
		return
	}
	_ = d.command.Process.Signal(syscall.SIGQUIT)
	<-d.ended
}

// connections counts those of other programs than this one's own store.
func (d *database) connections(ctx context.Context) (n int, err error) {
	conn, err := pgx.Connect(ctx, d.url())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `select count(*) from pg_stat_activity where backend_type = 'client backend' and client_addr is null
and application_name <> $1 and pid <> pg_backend_pid()`, directorName).Scan(&n)
	return n, err
}

func (d *database) remove() {
	d.crash()
	if d.folder != "" {
		_ = os.RemoveAll(d.folder)
	}
}

// unprivileged is who runs the server when root would: PostgreSQL refuses that.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("postgresql refuses to run as root, and there is nobody else: %w", err)
	}
	uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}
