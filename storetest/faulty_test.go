package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// counter is a store that only counts what reaches it.
type counter struct {
	pawl.Store
	mu      sync.Mutex
	reached int
}

func (c *counter) Settle(_ context.Context, _ pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached++
	return make([]error, len(settlements)), nil
}

func (c *counter) CloseSession(context.Context, pawl.SessionID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached++
	return nil
}

func TestFaultyFailsTheChosenCallOnTheChosenSide(t *testing.T) {
	t.Parallel()
	for when, reached := range map[storetest.When]int{storetest.Before: 2, storetest.After: 3} {
		t.Run(when.String(), func(t *testing.T) {
			t.Parallel()
			inner := &counter{}
			faulty := storetest.Fail(inner)
			faulty.At(2, when)
			for n := 1; n <= 3; n++ {
				results, err := faulty.Settle(t.Context(), 1, make([]pawl.Settlement, 4))
				if fails := n == 2; errors.Is(err, storetest.ErrFault) != fails || (results == nil) != fails {
					t.Errorf("call %d: results %v, error %v", n, results, err)
				}
			}
			if inner.reached != reached {
				t.Errorf("%d calls reached the store, want %d", inner.reached, reached)
			}
		})
	}
}

func TestFaultyCountsEveryCallFromEveryGoroutine(t *testing.T) {
	t.Parallel()
	inner := &counter{}
	faulty := storetest.Fail(inner)
	faulty.At(17, storetest.Before)
	var group sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for range 50 {
		group.Go(func() {
			if err := faulty.CloseSession(t.Context(), 1); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
			}
		})
	}
	group.Wait()
	if faulty.Calls() != 50 || len(faulty.Log()) != 50 || faulty.Log()[0] != "CloseSession" || inner.reached != 49 || failed != 1 {
		t.Errorf("calls %d, log of %d, reached %d, failed %d", faulty.Calls(), len(faulty.Log()), inner.reached, failed)
	}
}

func TestFaultyHookStandsAroundItsMethodOnly(t *testing.T) {
	t.Parallel()
	inner := &counter{}
	faulty := storetest.Fail(inner)
	refused := errors.New("refused")
	faulty.Hook("Settle", func(_ context.Context, call func() error) error {
		return errors.Join(call(), refused)
	})
	if results, err := faulty.Settle(t.Context(), 1, make([]pawl.Settlement, 1)); !errors.Is(err, refused) || results != nil {
		t.Errorf("hooked call: results %v, error %v", results, err)
	}
	if err := faulty.CloseSession(t.Context(), 1); err != nil {
		t.Errorf("call without a hook: %v", err)
	}
	faulty.Hook("Settle", nil)
	if _, err := faulty.Settle(t.Context(), 1, nil); err != nil {
		t.Errorf("call after the hook was taken away: %v", err)
	}
	if inner.reached != 3 {
		t.Errorf("%d calls reached the store, want 3", inner.reached)
	}
}

func TestFaultyOverAStoreWithoutOperator(t *testing.T) {
	t.Parallel()
	faulty := storetest.Fail(&counter{})
	if _, err := faulty.Hosts(t.Context()); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("Hosts: %v", err)
	}
	if err := faulty.SwitchKind(t.Context(), pawl.KindSwitch{}, pawl.By{}); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("SwitchKind: %v", err)
	}
	if faulty.Calls() != 2 {
		t.Errorf("calls %d, want 2", faulty.Calls())
	}
}

// A test of what stands on a store counts the calls of a good run and then fails each of them, on both sides.
func ExampleFail() {
	run := func(store pawl.Store) error { return store.CloseSession(context.Background(), 1) }

	whole := storetest.Fail(&counter{})
	fmt.Println("good run:", run(whole), "calls:", whole.Log())
	for n := 1; n <= whole.Calls(); n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			inner := &counter{}
			faulty := storetest.Fail(inner)
			faulty.At(n, when)
			fmt.Printf("call %d fails %s: %v, reached the store %d times\n", n, when, run(faulty), inner.reached)
		}
	}
	// Output:
	// good run: <nil> calls: [CloseSession]
	// call 1 fails before: storetest: injected fault, reached the store 0 times
	// call 1 fails after: storetest: injected fault, reached the store 1 times
}
