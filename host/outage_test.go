package host_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// outage is a store that can go away, and that counts the calls it gets meanwhile.
type outage struct {
	*storetest.Faulty
	down  atomic.Bool
	calls atomic.Int64
}

var errDown = errors.New("connection refused")

func newOutage(store pawl.Store) *outage {
	o := &outage{Faulty: storetest.Fail(store)}
	for _, method := range []string{
		"OpenSession", "Beat", "Claim", "Start", "Settle", "Condemn", "Sweep", "Wake", "CloseSession",
		"ClaimAlerts", "SettleAlerts", "Letter", "BusyQueues",
	} {
		o.Hook(method, o.hook)
	}
	return o
}

func (o *outage) hook(_ context.Context, call func() error) error {
	if o.down.Load() {
		o.calls.Add(1)
		return errDown
	}
	return call()
}
