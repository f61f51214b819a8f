package desk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pawljobs/pawl"
)

// CheckRepeat looks at an enqueue whose id was accepted before: a repeat is of the same job. The kind and the envelope are
// what is kept of that one; what is not kept any more, was erased or cannot be read is not compared. Args are the same when
// they are the same JSON value, so that a client which writes its keys in another order can repeat too.
func CheckRepeat(job *pawl.NewJob, kind string, envelope []byte) error {
	if kind != "" && kind != job.Kind {
		return fmt.Errorf("job %s is there already, of kind %s: it is no repeat to enqueue one of kind %s under its id: %w",
			job.ID, kind, job.Kind, pawl.ErrConflict)
	}
	there, err := pawl.DecodeEnvelope(envelope)
	if err != nil || !there.Erased.IsZero() {
		return nil
	}
	here, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil || !here.Erased.IsZero() || sameValue(there.Args, here.Args) {
		return nil
	}
	return fmt.Errorf("job %s of kind %s is there already, with other args (%d bytes; these are %d): it is no repeat to enqueue these under its id: %w",
		job.ID, job.Kind, len(there.Args), len(here.Args), pawl.ErrConflict)
}

func sameValue(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var values [2]any
	for i, raw := range [][]byte{a, b} {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber() // numbers are as they were written
		if decoder.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
