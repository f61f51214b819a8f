// Package child runs measurements in processes of their own, so that the processor time and the memory of each side
// are its own: Run is the parent's half, Link the child's.
//
// They talk in lines of JSON. The parent sends a Task; the child announces the begin and the end of each phase and
// waits each time for an empty line, so that the parent can read the database's counters at exactly these moments.
package child

import "time"

// Task is what a child is to do. Fields that do not concern it are zero.
type Task struct {
	Load   string // what to measure: a name of package load
	Side   string // whose client: pawl, river, raw, empty
	Engine string // postgres or sqlite
	URL    string // of the database, or the path of the file

	Jobs      int           // to enqueue and work off
	Callers   int           // goroutines that enqueue
	Limit     time.Duration // for a load that goes by time; for others, after which they are cut short
	Rate      float64       // jobs a second
	Workers   int
	Hosts     int  // that work; default 1
	Queues    int  // that jobs are spread over; default 1
	Tuned     bool // the best settings instead of the default ones
	NoHistory bool
	Beat      time.Duration // of the hosts, with the times that depend on it; default theirs

	Payload   int     // bytes of args beside the small ones
	Failing   float64 // share of jobs whose first attempt fails
	Unique    float64 // share of jobs with a unique key
	DueAtOnce bool    // all jobs are scheduled for one moment
	Late      bool    // at the end, the job number Late that was enqueued first and commits last
	Scheduled int     // jobs for tomorrow that are there before
	Foreign   int     // jobs of a kind without a handler that are there before, at the head
}

// Late is the number of the job that Task.Late is about.
const Late = -1

// Phase is what happened between the begin and the end of a phase.
type Phase struct {
	Jobs    int
	Seconds float64
	Client  time.Duration // processor time of the child
	Server  time.Duration // processor time of the database
	WAL     int64         // bytes
}

// Rate is in jobs a second.
func (p Phase) Rate() float64 { return over(float64(p.Jobs), p.Seconds) }

// ClientMicros is the child's processor time for a job, in microseconds.
func (p Phase) ClientMicros() float64 {
	return over(float64(p.Client.Nanoseconds())/1e3, float64(p.Jobs))
}

// ServerMicros is the database's processor time for a job, in microseconds.
func (p Phase) ServerMicros() float64 {
	return over(float64(p.Server.Nanoseconds())/1e3, float64(p.Jobs))
}

// WALBytes is what a job has added to the database's log.
func (p Phase) WALBytes() float64 { return over(float64(p.WAL), float64(p.Jobs)) }

func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Report is what came of a task.
type Report struct {
	Phases map[string]Phase
	Values map[string]float64
}

// message is a line from the child.
type message struct {
	Begin   string             `json:",omitempty"`
	End     string             `json:",omitempty"`
	Jobs    int                `json:",omitempty"`
	Seconds float64            `json:",omitempty"`
	CPU     time.Duration      `json:",omitempty"`
	Values  map[string]float64 `json:",omitempty"`
	Error   string             `json:",omitempty"`
}
