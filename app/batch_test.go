package app

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/sqlite"
)

// mkbatch opens a batch as a service does, and prints its id.
func mkbatch() {
	kind, follow, n, delay := "", "", 0, time.Duration(0)
	flag.StringVar(&kind, "kind", "photo.resize.v1", "of the members")
	flag.StringVar(&follow, "follow", "album.ready.v1", "the kind that follows")
	flag.IntVar(&n, "n", 3, "members")
	flag.DurationVar(&delay, "delay", 0, "of a member more")
	flag.Parse()
	ctx := context.Background()
	s, err := sqlite.Open(ctx, "pawl.db", sqlite.Config{})
	check(err)
	resize := pawl.NewKind[int](kind, pawl.Policy{})
	members, err := resize.NewMany(ctx, s.Connection(), make([]int, n))
	check(err)
	if delay > 0 {
		late, err := resize.New(ctx, s.Connection(), 1, pawl.Delay(delay))
		check(err)
		members = append(members, late)
	}
	opened, err := pawl.NewKind[int](follow, pawl.Policy{}).EnqueueAfter(ctx, s, members, 7, pawl.InQueue("1-critical"))
	check(err)
	fmt.Println(opened.ID)
	check(s.Close())
}

// batch opens one.
func (f far) batch(members int) string {
	f.Helper()
	kind := pawl.NewKind[int]("photo.resize.v1", pawl.Policy{})
	jobs, err := kind.NewMany(f.Context(), f.store.Connection(), make([]int, members))
	if err != nil {
		f.Fatal(err)
	}
	opened, err := kind.EnqueueAfter(f.Context(), f.store, jobs, 7)
	if err != nil {
		f.Fatal(err)
	}
	return opened.ID.String()
}

// Batches are looked at and added to over the network as beside the store.
func TestBatchesFromAfar(t *testing.T) {
	t.Parallel()
	f := setupFar(t)
	batch, unknown := f.batch(3), pawl.NewID().String()
	f.batch(1)
	out, talk, code := f.pawl(api.RoleEnqueue, f.server.URL, "job", "enqueue", "photo.resize.v1", "--batch", batch)
	if code != 0 {
		t.Errorf("add a member: status %d\n%s%s", code, out, talk)
	}
	if out, talk, code = f.pawl(api.RoleEnqueue, f.server.URL, "batch", "show", batch); code != exitDenied {
		t.Errorf("a token that only enqueues looks at a batch: status %d\n%s%s", code, out, talk)
	}
	if out, _, _ = f.pawl(api.RoleViewer, f.server.URL, "batch", "show", batch); !strings.Contains(out, "4: 0 done, 0 dead, 0 removed, 4 not ended") {
		t.Errorf("the batch is\n%s", out)
	}
	for _, args := range [][]string{
		{"batch", "list"},
		{"batch", "list", "--json", "--state", "open"},
		{"batch", "list", "--limit", "1"},
		{"batch", "list", "--after", "x"},
		{"batch", "show", batch},
		{"batch", "show", batch, "--json"},
		{"batch", "show", batch, "--members", "--json"},
		{"batch", "show", unknown},
		{"batch", "show", unknown, "--members"},
		{"job", "show", batch},
		{"job", "enqueue", "a", "--batch", unknown},
	} {
		f.alike(args...)
	}
}
