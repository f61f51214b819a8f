package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

// The test binary is the other process as well.
const (
	roleVariable = "PAWL_SQLITE_TEST_ROLE"
	fileVariable = "PAWL_SQLITE_TEST_FILE"
)

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	if err := role(context.Background(), os.Getenv(fileVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var roles = map[string]func(ctx context.Context, path string) error{
	"start":       roleStart,
	"enqueue one": roleEnqueueOne,
	"enqueue":     roleEnqueue,
	"work":        roleWork,
}

// process starts the test binary in a role. Closing its input ends it; its output is read by the caller.
func process(t *testing.T, role, path string) (cmd *exec.Cmd, input io.WriteCloser, output *bufio.Reader) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, fileVariable+"="+path)
	cmd.Stderr = os.Stderr
	input, err = cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, input, bufio.NewReader(pipe)
}

// awaitLine waits for the parent.
func awaitLine() error {
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

var processKind = pawl.NewKind[int]("process.work.v1", pawl.Policy{})

func roleStart(ctx context.Context, path string) error {
	fmt.Println("up")
	if err := awaitLine(); err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	return store.Close()
}

func TestProcessesStartTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	const n = 8
	var children []*exec.Cmd
	var inputs []io.WriteCloser
	for range n {
		child, input, output := process(t, "start", path)
		if _, err := output.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		children, inputs = append(children, child), append(inputs, input)
	}
	for _, input := range inputs {
		fmt.Fprintln(input, "go")
	}
	for _, child := range children {
		if err := child.Wait(); err != nil {
			t.Errorf("process: %v", err)
		}
	}
	migratedOnce(t, path)
}

func TestHandlesStartTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if err := store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	group.Wait()
	migratedOnce(t, path)
}

func migratedOnce(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows, counters int
	row := db.QueryRowContext(t.Context(), `select (select count(*) from pawl_schema where version = 1), (select count(*) from pawl_counter)`)
	if err := row.Scan(&rows, &counters); err != nil {
		t.Fatal(err)
	}
	if rows != 1 || counters != 4 {
		t.Errorf("migration 1 is noted %d times, and there are %d counters", rows, counters)
	}
}

func roleEnqueueOne(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	fmt.Println("up")
	if err := awaitLine(); err != nil {
		return err
	}
	if _, err := processKind.Enqueue(ctx, store, 1); err != nil {
		return err
	}
	fmt.Println("done")
	return awaitLine() // it lives on, so that its end is not what wakes
}

func TestAnotherProcessWakes(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	child, input, output := process(t, "enqueue one", store.(onFile).path)
	if _, err := output.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settle(t, wake)
	fmt.Fprintln(input, "go")
	if line, err := output.ReadString('\n'); err != nil || line != "done\n" {
		t.Fatalf("process said %q, %v", line, err)
	}
	stored := time.Now()
	select {
	case <-wake:
		t.Logf("woken %v after the other process said that its job is stored", time.Since(stored).Round(time.Millisecond))
	case <-time.After(10 * time.Second):
		t.Error("the other process' job woke nobody")
	}
	fmt.Fprintln(input, "end")
	if err := child.Wait(); err != nil {
		t.Errorf("process: %v", err)
	}
}

// settle takes the values that are there for what was before.
func settle(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	for {
		select {
		case <-wake:
		case <-time.After(500 * time.Millisecond): // ten looks at the file
			return
		}
	}
}

func roleEnqueue(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				result, err := processKind.Enqueue(ctx, store, n)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				fmt.Fprintln(os.Stdout, result.ID)
			}
		})
	}
	group.Wait()
	return errors.New("it is to be killed")
}

// What Enqueue has acknowledged survives the process.
func TestKilledProcessKeepsItsWord(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	child, _, output := process(t, "enqueue", store.(onFile).path)
	var acknowledged []string
	for {
		line, err := output.ReadString('\n')
		if err != nil {
			break // a line that was cut off was not said
		}
		acknowledged = append(acknowledged, strings.TrimSpace(line))
		if len(acknowledged) == 300 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil {
		t.Error("the process was to be killed and ended well")
	}
	if len(acknowledged) < 300 {
		t.Fatalf("%d jobs acknowledged, want at least 300", len(acknowledged))
	}
	for _, text := range acknowledged {
		id, err := pawl.ParseID(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Job(t.Context(), id); err != nil {
			t.Errorf("acknowledged job %s: %v", id, err)
		}
	}
}

const perWorker = 60

// roleWork enqueues jobs one by one and works on whatever is there, until nothing is.
func roleWork(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	session, err := store.OpenSession(ctx, pawl.HostInfo{Name: "worker", Kinds: []string{processKind.Name()}})
	if err != nil {
		return err
	}
	for n := range perWorker {
		if _, err := processKind.Enqueue(ctx, store, n); err != nil {
			return err
		}
		if _, err := store.Beat(ctx, session, pawl.Beat{}); err != nil {
			return err
		}
	}
	request := pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{processKind.Name()}, Max: 7}
	for {
		n, err := claimAndSettle(ctx, store, request)
		if err != nil || n == 0 {
			return err
		}
	}
}

// Processes on one file wait for each other; none is told that it is busy.
func TestProcessesShareAFile(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	var children []*exec.Cmd
	const n = 4
	for range n {
		child, _, _ := process(t, "work", store.(onFile).path)
		children = append(children, child)
	}
	for _, child := range children {
		if err := child.Wait(); err != nil {
			t.Errorf("process: %v", err)
		}
	}
	db := openBeside(t, store)
	var done, left int
	row := db.QueryRowContext(t.Context(), `select (select count(*) from pawl_done where state = 'done'), (select count(*) from pawl_job)`)
	if err := row.Scan(&done, &left); err != nil {
		t.Fatal(err)
	}
	if done != n*perWorker || left != 0 {
		t.Errorf("%d jobs done and %d left, want %d and none", done, left, n*perWorker)
	}
}
