package server

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// The time of a child counts, while it runs or after its end.
func TestFamilyCPU(t *testing.T) {
	t.Parallel()
	before, err := familyCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after, err := familyCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after - before; used < 20*time.Millisecond || used > 10*time.Second {
		t.Errorf("a busy child used %s", used)
	}
}
