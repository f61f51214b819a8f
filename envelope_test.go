package pawl_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
)

func fullEnvelope() pawl.Envelope {
	p := pawl.DefaultPolicy()
	p.RetryFor, p.Redrive, p.StartsOff = time.Hour, pawl.RedriveOneByOne, true
	return pawl.Envelope{
		ID: pawl.NewID(), Kind: "mail.send.v1", Args: []byte(`{"b":1,"a":"\u0000","b":2}`), Policy: p,
		RetryUntil: noon, CorrelationID: "c", TraceParent: "00-1", TraceState: "s=1", Tags: []string{"x", "y"},
		Unique:      pawl.Unique{Key: "k", Scope: pawl.UniqueForPeriod, Period: time.Minute},
		OrderingKey: "o", LimitKey: "l", Limited: true, Origin: pawl.Origin{Source: pawl.OriginRedrive, Ref: "r"}, Signature: []byte{1, 2},
		Batch: pawl.NewID(), After: pawl.BatchEnd{Batch: pawl.NewID(), Done: 300, Dead: 2, Removed: 1},
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	t.Parallel()
	want := fullEnvelope()
	got, err := pawl.DecodeEnvelope(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back differently (-want +got):\n%s", diff)
	}
}

// Case 20: every single flipped bit, and every cut, is noticed, and the error is poison.
func TestEnvelopeDamageIsNoticed(t *testing.T) {
	t.Parallel()
	whole := fullEnvelope().Encode()
	check := func(damaged []byte, what string, at int) {
		_, err := pawl.DecodeEnvelope(damaged)
		var poison *pawl.PoisonError
		if !errors.As(err, &poison) || poison.Reason != pawl.ReasonUndecodable {
			t.Fatalf("%s at %d: got %v, want poison", what, at, err)
		}
	}
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			check(damaged, "flip", i)
		}
		check(whole[:i], "cut", i)
	}
}

// What is left of an erased envelope is who the job was, and nothing that it carried; it cannot be enqueued again.
func TestErasedEnvelope(t *testing.T) {
	t.Parallel()
	e := fullEnvelope()
	e.Args, e.Unique.Key, e.OrderingKey, e.LimitKey = []byte(`{"name":"Ada Person"}`), "key of Ada Person", "order of Ada Person", "limit of Ada Person"
	erased := e.Erase(noon)
	stored := erased.Encode()
	if bytes.Contains(stored, []byte("Ada")) {
		t.Errorf("what was erased is still there: %q", stored)
	}
	got, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		t.Fatal(err)
	}
	want := e
	want.Args, want.Unique, want.OrderingKey, want.LimitKey, want.Signature, want.Erased = nil, pawl.Unique{}, "", "", nil, noon
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back differently (-want +got):\n%s", diff)
	}
	if err := got.Check(); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "erased") {
		t.Errorf("an erased envelope passes: %v", err)
	}
}

func TestEnvelopeOfLaterReleaseIsRead(t *testing.T) {
	t.Parallel()
	e := fullEnvelope()
	extended := pawl.AppendUnknownField(e.Encode(), 99, []byte("new"))
	got, err := pawl.DecodeEnvelope(extended)
	if err != nil || got.ID != e.ID || !bytes.Equal(got.Args, e.Args) {
		t.Errorf("an unknown field stops the reading: %v", err)
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	f.Add(fullEnvelope().Encode())
	f.Add([]byte("PWL\x01"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		for _, input := range [][]byte{stored, pawl.Checksummed(stored)} {
			e, err := pawl.DecodeEnvelope(input)
			if err != nil {
				continue
			}
			again, err := pawl.DecodeEnvelope(e.Encode())
			if err != nil {
				t.Fatalf("cannot read back: %v", err)
			}
			if diff := cmp.Diff(e, again); diff != "" {
				t.Fatalf("reads differently the second time:\n%s", diff)
			}
		}
	})
}
