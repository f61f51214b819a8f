// Package server runs a private PostgreSQL for the measurements and reads what it has used.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings are those of the measurements. Whatever is not named has PostgreSQL's default.
var settings = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on", "autovacuum=on",
	"shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=30min", "max_connections=300",
	"listen_addresses=127.0.0.1", "log_min_messages=fatal", "log_checkpoints=off",
}

// Server is a running PostgreSQL in a temporary folder.
type Server struct {
	folder  string
	port    int
	command *exec.Cmd
	ended   chan struct{}
	admin   *pgx.Conn
}

// Start initialises a database cluster in a temporary folder and starts a server on it. Its programs are found where
// Debian puts them or by PATH; else the command need, called as `need initdb postgresql`, is to install them. As root
// the server runs as an unprivileged user. The caller stops it.
func Start(ctx context.Context, need string) (*Server, error) {
	bin, err := programs(ctx, need)
	if err != nil {
		return nil, err
	}
	s := &Server{ended: make(chan struct{})}
	if err := s.start(ctx, bin); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, bin string) error {
	folder, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return err
	}
	s.folder = folder
	credential, err := unprivileged()
	if err != nil {
		return err
	}
	if credential != nil {
		if err := os.Chown(folder, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(folder, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "pawl", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = folder, &syscall.SysProcAttr{Credential: credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	args := []string{"-D", data, "-k", folder, "-p", strconv.Itoa(s.port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return s.launch(ctx, filepath.Join(bin, "postgres"), args, credential)
}

func (s *Server) launch(ctx context.Context, program string, args []string, credential *syscall.Credential) error {
	log, err := os.Create(filepath.Join(s.folder, "server.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = s.folder, log, log
	// A group of its own, so that an interrupt at the terminal reaches this program alone, which then stops the server;
	// and should this program be killed, the server ends too.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if err := command.Start(); err != nil {
		return err
	}
	s.command = command
	go func() {
		_ = command.Wait()
		close(s.ended)
	}()
	return s.connect(ctx)
}

// connect waits until the server answers.
func (s *Server) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			s.admin = conn
			return nil
		}
		select {
		case <-s.ended:
			log, _ := os.ReadFile(filepath.Join(s.folder, "server.log"))
			return fmt.Errorf("the server ended: %s", log)
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL names a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://pawl@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Fresh makes an empty database, in place of one of the same name, and writes a checkpoint.
func (s *Server) Fresh(ctx context.Context, database string) (url string, err error) {
	name := pgx.Identifier{database}.Sanitize()
	for _, statement := range []string{
		"drop database if exists " + name + " with (force)", "create database " + name + " template template0", "checkpoint",
	} {
		if _, err := s.admin.Exec(ctx, statement); err != nil {
			return "", fmt.Errorf("make database %s: %w", database, err)
		}
	}
	return s.URL(database), nil
}

// Checkpoint writes all that was changed to disk, so that it is not written during a measurement.
func (s *Server) Checkpoint(ctx context.Context) error {
	_, err := s.admin.Exec(ctx, "checkpoint")
	return err
}

// Drop removes a database.
func (s *Server) Drop(ctx context.Context, database string) error {
	_, err := s.admin.Exec(ctx, "drop database if exists "+pgx.Identifier{database}.Sanitize()+" with (force)")
	return err
}

// Version is what the server says it is.
func (s *Server) Version() string { return s.admin.PgConn().ParameterStatus("server_version") }

// Stop ends the server at once, since nothing in its folder is needed any more, and removes the folder. It can be
// called several times.
func (s *Server) Stop() {
	if s.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = s.admin.Close(ctx)
		cancel()
	}
	if s.command != nil {
		select {
		case <-s.ended:
		default:
			_ = s.command.Process.Signal(syscall.SIGQUIT)
		}
		<-s.ended
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// unprivileged is who the server runs as; nil: as whoever runs this program.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		if found, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("postgresql refuses to run as root, and there is nobody else: %w", err)
		}
	}
	uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		return nil, fmt.Errorf("user %s has no usable number: %s, %s", found.Username, found.Uid, found.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
