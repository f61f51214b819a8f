//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// ownServer is a PostgreSQL that one test starts and stops as it likes. It flushes what it commits.
type ownServer struct {
	t      *testing.T
	bin    string
	folder string
	as     *syscall.SysProcAttr
	url    string
}

func startOwnServer(t *testing.T) *ownServer {
	t.Helper()
	bin := os.Getenv("PAWL_TEST_PGBIN")
	if bin == "" {
		t.Skip("PAWL_TEST_PGBIN is not set: run the tests by scripts/with-services, which finds PostgreSQL's programs")
	}
	folder, err := os.MkdirTemp("", "pawl-own-") // a short name: there is a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &ownServer{t: t, bin: bin, folder: folder, url: "postgres://pawl@/postgres?host=" + folder}
	s.own()
	s.run("initdb", "-D", s.data(), "-A", "trust", "-U", "pawl", "-E", "UTF8", "--locale=C", "-N")
	settings := "unix_socket_directories = '" + folder + "'\nlisten_addresses = ''\nfsync = on\nmax_connections = 60\n" +
		"shared_buffers = 128MB\nlog_min_messages = fatal\n"
	if err := os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(folder, "log"), "-w", "start")
	t.Cleanup(func() { s.run("pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop") })
	return s
}

func (s *ownServer) data() string { return filepath.Join(s.folder, "data") }

// own hands the folder to somebody who may run a server: root may not.
func (s *ownServer) own() {
	if os.Getuid() != 0 {
		return
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		owner, err = user.Lookup("nobody")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		s.t.Fatal(err)
	}
	gid, err := strconv.Atoi(owner.Gid)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chown(s.folder, uid, gid); err != nil {
		s.t.Fatal(err)
	}
	s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// crash ends every process of the server at once, without a checkpoint, and starts it again: it recovers from its log.
func (s *ownServer) crash() {
	s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.folder, "log"), "-m", "immediate", "-w", "restart")
}

// run waits for one of the server's programs. What that leaves running holds neither pipes nor the test.
func (s *ownServer) run(program string, args ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var says bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	command.Dir, command.SysProcAttr, command.WaitDelay = s.folder, s.as, time.Second
	command.Stdout, command.Stderr = &says, &says
	if err := command.Run(); err != nil {
		s.t.Errorf("%s: %v\n%s", program, err, says.String())
	}
}
