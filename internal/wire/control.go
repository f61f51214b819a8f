package wire

import (
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// Queue is a queue with its counts.
type Queue struct {
	Queue         string `json:"queue" doc:"its name"`
	Waiting       int    `json:"waiting" doc:"jobs that are ready, or held back"`
	Scheduled     int    `json:"scheduled" doc:"jobs that are not due yet"`
	Reserved      int    `json:"reserved" doc:"jobs that hosts hold"`
	OldestReadyMS int64  `json:"oldest_ready_ms" doc:"age of the job that has been ready for longest"`
	Paused        bool   `json:"paused" doc:"no host claims from it"`
	Hosts         int    `json:"hosts" doc:"live ones that serve it"`
	PausedUntil   Stamp  `json:"paused_until" doc:"when it is resumed by itself; null: never, or it is not paused"`
	PausedAt      Stamp  `json:"paused_at" doc:"when it was paused"`
	PausedBy      Text   `json:"paused_by" doc:"who has paused it"`
	PauseReason   Text   `json:"pause_reason" doc:"why"`
}

// QueueOf is a queue's form, with what is known of its pause.
func QueueOf(q pawl.QueueView, hosts int, pauses []pawl.QueuePause) Queue {
	out := Queue{
		Queue: q.Name, Waiting: q.Waiting, Scheduled: q.Scheduled, Reserved: q.Reserved,
		OldestReadyMS: q.OldestReady.Milliseconds(), Paused: q.Paused, Hosts: hosts,
	}
	for _, p := range pauses {
		if p.Queue == q.Name && q.Paused {
			out.PausedUntil, out.PausedAt = Stamp(p.Until), Stamp(p.At)
			out.PausedBy, out.PauseReason = Text(p.By.Who), Text(p.By.Why)
		}
	}
	return out
}

// Read reads the form.
func (q Queue) Read() pawl.QueueView {
	return pawl.QueueView{
		Name: q.Queue, Waiting: q.Waiting, Scheduled: q.Scheduled, Reserved: q.Reserved,
		OldestReady: milliseconds(q.OldestReadyMS), Paused: q.Paused,
	}
}

// QueueHead is a kind of which jobs wait in a queue.
type QueueHead struct {
	Queue         string `json:"queue" doc:"the queue"`
	Kind          string `json:"kind" doc:"the kind"`
	StartsOff     bool   `json:"starts_off" doc:"the jobs run only while their kind is switched on"`
	OldestReadyMS int64  `json:"oldest_ready_ms" doc:"age of the job that has been ready for longest"`
}

// QueueHeadOf is a head's form.
func QueueHeadOf(h pawl.QueueHead) QueueHead {
	return QueueHead{h.Queue, h.Kind, h.StartsOff, h.OldestReady.Milliseconds()}
}

// Read reads the form.
func (h QueueHead) Read() pawl.QueueHead {
	return pawl.QueueHead{Queue: h.Queue, Kind: h.Kind, StartsOff: h.StartsOff, OldestReady: milliseconds(h.OldestReadyMS)}
}

// KindSwitch is a kill switch that is set.
type KindSwitch struct {
	Kind   string `json:"kind" doc:"the kind"`
	Switch string `json:"switch" doc:"on or off"`
	Until  Stamp  `json:"until" doc:"when it falls back; null: never"`
	Setting
}

// KindSwitchOf is a switch's form.
func KindSwitchOf(s pawl.KindSwitch) KindSwitch {
	return KindSwitch{s.Kind, map[bool]string{true: "on", false: "off"}[s.On], Stamp(s.Until), SettingOf(s.Setting)}
}

// Read reads the form.
func (s KindSwitch) Read() pawl.KindSwitch {
	return pawl.KindSwitch{Kind: s.Kind, On: s.Switch == "on", Until: time.Time(s.Until), Setting: s.Setting.Read()}
}

// QueuePause is a pause.
type QueuePause struct {
	Queue  string `json:"queue" doc:"the queue"`
	Paused bool   `json:"paused" doc:"no host claims from it"`
	Until  Stamp  `json:"until" doc:"when it is resumed by itself; null: never"`
	Setting
}

// Setting says who has set a switch or a pause. All is null where it is not known: in the answer to who sets it, for one.
type Setting struct {
	SetAt  Stamp `json:"set_at" doc:"when it was set"`
	SetBy  Text  `json:"set_by" doc:"who has set it"`
	Door   Text  `json:"door" doc:"through which: cli, library, api, dashboard"`
	Reason Text  `json:"reason" doc:"why"`
}

// SettingOf is a setting's form.
func SettingOf(s pawl.Setting) Setting {
	return Setting{Stamp(s.At), Text(s.By.Who), Text(s.By.Door), Text(s.By.Why)}
}

// Read reads the form.
func (s Setting) Read() pawl.Setting {
	return pawl.Setting{By: pawl.By{Who: string(s.SetBy), Door: string(s.Door), Why: string(s.Reason)}, At: time.Time(s.SetAt)}
}

// QueuePauseOf is a pause's form.
func QueuePauseOf(p pawl.QueuePause) QueuePause {
	return QueuePause{p.Queue, p.Paused, Stamp(p.Until), SettingOf(p.Setting)}
}

// Read reads the form.
func (p QueuePause) Read() pawl.QueuePause {
	return pawl.QueuePause{Queue: p.Queue, Paused: p.Paused, Until: time.Time(p.Until), Setting: p.Setting.Read()}
}

// Limit bounds the jobs of one kind, over all hosts.
type Limit struct {
	Concurrency int   `json:"concurrency" doc:"how many may run at once; 0: any number"`
	PerKey      int   `json:"per_key" doc:"how many with the same limit key may run at once; 0: any number"`
	Starts      int   `json:"starts" doc:"how many may start within per_ms; 0: any number"`
	PerMS       int64 `json:"per_ms" doc:"with starts; 0: a second"`
	Burst       int   `json:"burst" doc:"how many starts may come together; 0: as many as starts"`
}

// LimitOf is a limit's form.
func LimitOf(l pawl.Limit) Limit {
	return Limit{l.Concurrency, l.PerKey, l.Starts, Millis(l.Per), l.Burst}
}

// Read reads the form.
func (l Limit) Read() pawl.Limit {
	return pawl.Limit{Concurrency: l.Concurrency, PerKey: l.PerKey, Starts: l.Starts, Per: Span(l.PerMS), Burst: l.Burst}
}

// KindLimit is what one kind is held to.
type KindLimit struct {
	Kind      string `json:"kind" doc:"the kind"`
	Limit     Limit  `json:"limit" doc:"in force"`
	Stated    Limit  `json:"stated" doc:"by its policy, as the host that was started last knows it"`
	Overruled bool   `json:"overruled" doc:"an operator has set the one in force"`
	Through   int    `json:"through" doc:"jobs that were let through and have not ended; up to 10,000 are counted"`
	Waiting   int    `json:"waiting" doc:"jobs that wait for the limit; up to 10,000 are counted"`
}

// KindLimitOf is its form.
func KindLimitOf(k pawl.KindLimit) KindLimit {
	return KindLimit{k.Kind, LimitOf(k.Limit), LimitOf(k.Stated), k.Overruled, k.Through, k.Waiting}
}

// Read reads the form.
func (k KindLimit) Read() pawl.KindLimit {
	return pawl.KindLimit{
		Kind: k.Kind, Limit: k.Limit.Read(), Stated: k.Stated.Read(), Overruled: k.Overruled, Through: k.Through, Waiting: k.Waiting,
	}
}

// Server is a pool of workers in a host.
type Server struct {
	Name    string         `json:"name" doc:"its name"`
	Queues  []string       `json:"queues" doc:"that it serves"`
	Weights map[string]int `json:"weights,omitempty" doc:"by queue; absent: the queues' order is their priority"`
	Workers int            `json:"workers" doc:"how many jobs it runs at once"`
}

// Host is a session of a host.
type Host struct {
	Host      string           `json:"host" doc:"its name"`
	Session   pawl.SessionID   `json:"session" doc:"the number of its session"`
	PID       int              `json:"pid" doc:"of its process"`
	Version   Text             `json:"version" doc:"of its program"`
	Kinds     []string         `json:"kinds" doc:"it has handlers for"`
	Limits    map[string]Limit `json:"limits,omitempty" doc:"what these kinds state; one that is not named states none"`
	Sinks     []string         `json:"sinks" doc:"channels that it delivers alerts to"`
	Servers   []Server         `json:"servers" doc:"its pools of workers"`
	Busy      int              `json:"busy" doc:"handlers running, at its last beat"`
	Draining  bool             `json:"draining" doc:"it claims no more"`
	Quiet     bool             `json:"quiet" doc:"it was asked to claim no more"`
	Drain     bool             `json:"drain" doc:"it was asked to end"`
	NoDrain   bool             `json:"no_drain" doc:"it does not end when an operator asks: only its own program ends it"`
	Unsettled int              `json:"unsettled" doc:"ended attempts that it could not record yet"`
	OpenedAt  Stamp            `json:"opened_at" doc:"when its session began"`
	BeatAt    Stamp            `json:"beat_at" doc:"when it was last heard of"`
	Live      bool             `json:"live" doc:"it takes jobs: heard of within a minute, and not draining"`
}

// HostOf is a host's form.
func HostOf(h pawl.HostView) Host {
	return Host{
		h.Name, h.Session, h.PID, Text(h.Version), List(h.Kinds), byName(h.Limits, LimitOf), List(h.Sinks),
		Each(h.Servers, func(s pawl.ServerInfo) Server { return Server{s.Name, List(s.Queues), s.Weights, s.Workers} }),
		h.Busy, h.Draining, h.Quiet, h.Drain, h.NoDrain, h.Unsettled, Stamp(h.OpenedAt), Stamp(h.BeatAt), ops.Live(h),
	}
}

// Read reads the form.
func (h Host) Read() pawl.HostView {
	return pawl.HostView{
		HostInfo: pawl.HostInfo{
			Name: h.Host, PID: h.PID, Version: string(h.Version), Kinds: h.Kinds, Limits: byName(h.Limits, Limit.Read), Sinks: h.Sinks,
			Servers: Each(h.Servers, func(s Server) pawl.ServerInfo { return pawl.ServerInfo(s) }), NoDrain: h.NoDrain,
		},
		Session: h.Session, OpenedAt: time.Time(h.OpenedAt), BeatAt: time.Time(h.BeatAt), Busy: h.Busy,
		Draining: h.Draining, Quiet: h.Quiet, Drain: h.Drain, Unsettled: h.Unsettled,
	}
}

// Cleared says what a clearing of a queue has removed.
type Cleared struct {
	Queue   string `json:"queue" doc:"its name"`
	Cleared int    `json:"cleared" doc:"how many jobs were removed"`
	DryRun  bool   `json:"dry_run" doc:"nothing was done, it was only counted"`
}

// byName turns the values of a map; none stays none.
func byName[A, B any](values map[string]A, of func(A) B) map[string]B {
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]B, len(values))
	for name, value := range values {
		out[name] = of(value)
	}
	return out
}
