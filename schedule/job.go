package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// TickID is the id of the job that a tick makes: a function of the connection, the schedule's name and the tick, so
// that a tick makes one job whoever makes it. The form is a UUID of version 8 over SHA-256 (RFC 9562, section 5.8).
func TickID(connection, name string, tick time.Time) pawl.ID {
	h := sha256.New()
	h.Write([]byte("schedule"))
	for _, text := range []string{connection, name} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(tick.UnixMilli())))
	var id pawl.ID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// JobOf is the job of a tick. Its policy is resolved here, as at any other enqueue: what the schedule states, over the
// connection's, over the defaults.
func JobOf(connection pawl.Connection, s pawl.Schedule, tick time.Time) (pawl.NewJob, error) {
	return job(connection, s, TickID(connection.Name, s.Name, tick), originRef(s.Name, tick))
}

// JobNow is a job of the schedule beside its ticks.
func JobNow(connection pawl.Connection, s pawl.Schedule, now time.Time) (pawl.NewJob, error) {
	return job(connection, s, pawl.NewID(), byHand+originRef(s.Name, now))
}

func job(connection pawl.Connection, s pawl.Schedule, id pawl.ID, origin string) (pawl.NewJob, error) {
	e := pawl.Envelope{
		ID: id, Kind: s.Kind, Args: s.Args, Tags: s.Tags, CorrelationID: id.String(),
		Policy: s.Policy.Over(connection.Policy).Over(pawl.DefaultPolicy()),
		Origin: pawl.Origin{Source: pawl.OriginSchedule, Ref: origin},
	}
	e.Limited = !e.Policy.Limit.IsZero()
	if err := e.Check(); err != nil {
		return pawl.NewJob{}, err
	}
	return pawl.NewJobFrom(e), nil
}

// byHand begins the origin of a job that no tick has made.
const byHand = "run-now:"

func originRef(name string, at time.Time) string {
	return at.UTC().Format(time.RFC3339Nano) + " " + name
}

// Origin reads from the origin of a job which schedule has made it and for which tick: the time at which it was due by
// the timetable, whenever it runs. ManualRun says that it was RunSchedule, and when. It is false for any other job.
func Origin(origin pawl.Origin) (name string, tick time.Time, manualRun, ok bool) {
	at, name, cut := strings.Cut(origin.Ref, " ")
	at, manualRun = strings.CutPrefix(at, byHand)
	tick, err := time.Parse(time.RFC3339Nano, at)
	if origin.Source != pawl.OriginSchedule || !cut || err != nil {
		return "", time.Time{}, false, false
	}
	return name, tick, manualRun, true
}
