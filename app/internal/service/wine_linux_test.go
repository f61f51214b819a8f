package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// prng stands in for a library that Wine 8 has not, and that every Go program for Windows needs.
const prng = `#include <windows.h>
BOOLEAN WINAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
`

// The life of a Windows service, under Wine, which is no proof of Windows: installed, started, ready, drained, stopped, removed.
func TestWindowsService(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a program and boots a Windows")
	}
	for _, tool := range []string{"wine", "wineserver", "x86_64-w64-mingw32-gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed: the Windows service is not tried")
		}
	}
	folder := t.TempDir()
	w := &windows{T: t, environ: append(os.Environ(), "WINEPREFIX="+filepath.Join(folder, "prefix"), "WINEDEBUG=-all")}
	drive := filepath.Join(folder, "prefix", "drive_c")
	source := filepath.Join(folder, "prng.c")
	if err := os.WriteFile(source, []byte(prng), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = w.command(ctx, "wineserver", "--kill").Run()
		_ = w.command(ctx, "wineserver", "--wait").Run()
	})
	w.must("wine", "wineboot", "--init")
	w.must("wineserver", "--wait") // what the boot has begun ends, its service manager too
	w.must("x86_64-w64-mingw32-gcc", "-shared", "-o", filepath.Join(drive, "windows", "system32", "bcryptprimitives.dll"), source, "-ladvapi32")
	build := w.command(t.Context(), "go", "build", "-o", filepath.Join(drive, "pawl", "pawl.exe"), "../../../cmd/pawl")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for Windows: %v\n%s", err, out)
	}
	running, stop := context.WithCancel(t.Context())
	shell := w.command(running, "wine", "cmd.exe") // services last as long as a session; it waits for what is typed
	typed, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(prompt).ReadString('>') // it is there
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = typed.Close(); _ = shell.Wait() })

	called, answer := make(chan struct{}), make(chan struct{})
	downstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(called) // it is called once
		<-answer
	}))
	defer downstream.Close()
	release := sync.OnceFunc(func() { close(answer) })
	defer release() // a failed test does not wait for it
	config := "http_request: {allow: [\"127.0.0.1:*\"], allow_http: true, allow_networks: [127.0.0.0/8]}\n"
	if err := os.WriteFile(filepath.Join(drive, "pawl", "pawl.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	install := []string{"install", "--config", `C:\pawl\pawl.yaml`, "--listen", address}
	w.pawl("0", install...)
	w.pawl("5", install...)
	w.pawl("8", "status")
	w.pawl("0", "start")
	if out := w.pawl("0", "status"); !strings.Contains(out, "runs") {
		t.Errorf("its status is %s", out)
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + address + "/healthz/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "Healthy" {
		t.Errorf("it is %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(drive, "pawl", "pawl.db")); err != nil {
		t.Errorf("its store is not beside its program: %v", err)
	}

	// A job that runs when the service is told to stop: it is drained, and only then has the service stopped.
	job := strings.TrimSpace(w.run("0", "job", "enqueue", "http.request.v1", "--args", `{"url": "`+downstream.URL+`"}`, "--store", `sqlite:C:\pawl\pawl.db`))
	select {
	case <-called:
	case <-time.After(time.Minute):
		t.Fatal("the job is not run")
	}
	stopped := make(chan string, 1)
	go func() {
		out, err := w.output(w.command(t.Context(), "wine", `C:\pawl\pawl.exe`, "service", "stop", "--name", "pawl"))
		stopped <- fmt.Sprint(out, err)
	}()
	for w.unhealthy(address) != nil {
		select {
		case said := <-stopped:
			t.Fatalf("it has stopped, and its job runs: %s", said)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if out := w.pawl("8", "status"); !strings.Contains(out, "drains") {
		t.Errorf("while its job runs its status is %s", out)
	}
	release()
	if said := <-stopped; !strings.HasSuffix(said, "<nil>") {
		t.Fatalf("stop: %s", said)
	}
	w.pawl("8", "status")
	if out := w.run("0", "job", "show", job, "--store", `sqlite:C:\pawl\pawl.db`, "--json"); !strings.Contains(out, `"state":"done"`) {
		t.Errorf("the job that was drained is %s", out)
	}
	w.pawl("0", "uninstall")
	w.pawl("3", "status")
}

// windows is a Windows under Wine.
type windows struct {
	*testing.T
	environ []string
}

func (w *windows) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = w.environ
	command.WaitDelay = 5 * time.Second
	return command
}

func (w *windows) must(name string, args ...string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	defer cancel()
	if out, err := w.output(w.command(ctx, name, args...)); err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// output runs a command and returns what it says. It goes through a file: processes that Wine leaves behind hold it open.
func (w *windows) output(command *exec.Cmd) (string, error) {
	w.Helper()
	file, err := os.CreateTemp(w.TempDir(), "out")
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	failure := command.Run()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		w.Fatal(err)
	}
	return string(text), failure
}

// unhealthy asks whether the host drains by now.
func (w *windows) unhealthy(address string) error {
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + address + "/healthz/ready")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		return errors.New(response.Status)
	}
	return nil
}

// pawl runs a command of service and checks its exit status.
func (w *windows) pawl(status string, args ...string) string {
	w.Helper()
	return w.run(status, append(append([]string{"service"}, args...), "--name", "pawl")...)
}

// run runs a command of pawl and checks its exit status.
func (w *windows) run(status string, args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	out, err := w.output(w.command(ctx, "wine", append([]string{`C:\pawl\pawl.exe`}, args...)...))
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != status {
		w.Fatalf("%v: exit status %s, want %s\n%s", args, got, status, out)
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
