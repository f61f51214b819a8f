package api

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

// What routes take and answer, beside the forms of package wire. The tag doc is in the description.
type (
	ref          = wire.Ref
	jobDetail    = wire.JobDetail
	letterDetail = wire.LetterDetail
	queuePause   = wire.QueuePause
	kindSwitch   = wire.KindSwitch
	status       = wire.Status
	cleared      = wire.Cleared
)

type about struct {
	Connection string      `json:"connection" doc:"the name of the store"`
	Policy     wire.Policy `json:"policy" doc:"what jobs inherit where neither the call nor the kind says; zero values are not stated"`
	Version    string      `json:"version" doc:"of the program"`
	Token      string      `json:"token" doc:"the name of the token"`
	Role       Role        `json:"role" doc:"what it may do: enqueue, viewer, operator or admin"`
}

type document json.RawMessage

func (d document) MarshalJSON() ([]byte, error) { return d, nil }

// paging is in the query of lists.
type paging struct {
	Limit pageSize `query:"limit" doc:"how many at most: 1 to 1000, default 50"`
	After string   `query:"after" doc:"the next of the page before"`
}

// pageSize is how many rows a page has at most. Where it is given it counts: a 0 is no default.
type pageSize int

// UnmarshalText refuses what no page can have.
func (s *pageSize) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return &pawl.FieldError{Field: "limit", Value: string(text), Rule: "must be a whole number"}
	case err != nil || n < 1 || n > 1000:
		return &pawl.FieldError{Field: "limit", Value: string(text), Rule: "must be from 1 to 1000"}
	}
	*s = pageSize(n)
	return nil
}

func (p paging) page() pawl.Page { return pawl.Page{Limit: int(p.Limit), After: p.After} }

type jobsQuery struct {
	State string    `query:"state" doc:"waiting, scheduled, reserved, done, dead or removed"`
	Kind  string    `query:"kind" doc:"of this kind"`
	Queue string    `query:"queue" doc:"in this queue"`
	Since time.Time `query:"since" doc:"enqueued at or after this time"`
	paging
}

type jobPage struct {
	Jobs []wire.Job `json:"jobs" doc:"this page"`
	Next wire.Text  `json:"next" doc:"where the next page begins; null on the last"`
}

type jobQuery struct {
	ID      pawl.ID `path:"id" json:"-" doc:"of the job"`
	Payload bool    `query:"payload" doc:"the args too"`
}

type enqueuing struct {
	wire.NewJob
	Jobs []wire.NewJob `json:"jobs,omitempty" doc:"several jobs, at most 1,000, in place of the fields of one"`
}

// enqueued is the answer for one job, or for several.
type enqueued struct {
	*wire.Enqueued
	Jobs []wire.Enqueued `json:"jobs,omitempty" doc:"result i belongs to job i, where several were enqueued"`
}

type jobsAct struct {
	IDs []pawl.ID `json:"ids" doc:"of jobs, at most 1,000"`
	acting
}

type jobActs struct {
	Results []jobActed `json:"results" doc:"result i belongs to id i"`
}

type jobActed struct {
	wire.JobActed
	Problem *problem `json:"problem" doc:"why it was not done; null when it was"`
}

type queueList struct {
	Queues []wire.Queue `json:"queues" doc:"in order of priority"`
}

type names struct {
	Names []string `json:"names" doc:"in order of priority"`
}

type queueHeads struct {
	Heads []wire.QueueHead `json:"heads" doc:"in order of priority and kind"`
}

type queueAct struct {
	Queue string `path:"queue" json:"-" doc:"its name"`
	acting
}

type pausing struct {
	Queue  string     `path:"queue" json:"-" doc:"its name"`
	Paused *bool      `json:"paused" doc:"true stops the claims, false resumes them"`
	Until  wire.Stamp `json:"until,omitzero" doc:"when it is resumed by itself; absent: never"`
	ForMS  int64      `json:"for_ms,omitempty" doc:"how long after now, by the store's clock, it is resumed by itself; not with until"`
	acting
}

type switching struct {
	Kind  string     `path:"kind" json:"-" doc:"its name"`
	On    *bool      `json:"on" doc:"true lets its jobs run, false keeps them waiting"`
	Until wire.Stamp `json:"until,omitzero" doc:"when the switch falls back by itself; absent: never"`
	ForMS int64      `json:"for_ms,omitempty" doc:"how long after now, by the store's clock, the switch falls back by itself; not with until"`
	acting
}

type kindAct struct {
	Kind string `path:"kind" json:"-" doc:"its name"`
	acting
}

type switches struct {
	Kinds  []wire.KindSwitch `json:"kinds" doc:"switches that are set"`
	Queues []wire.QueuePause `json:"queues" doc:"queues that are paused"`
}

type limits struct {
	Limits []wire.KindLimit `json:"limits" doc:"by kind"`
}

type limiting struct {
	Kind  string      `path:"kind" json:"-" doc:"its name"`
	Limit *wire.Limit `json:"limit" doc:"the limit, with zeros none at all; null goes back to what the kind states"`
	acting
}

type hostList struct {
	Hosts []wire.Host `json:"hosts" doc:"by name"`
}

type sinkAct struct {
	Sink string `path:"sink" json:"-" doc:"its name"`
	acting
}

type sinkForgotten struct {
	Sink        string `json:"sink" doc:"its name"`
	Undelivered int    `json:"undelivered" doc:"deaths that it was not told of, and will not be"`
}

type hostAct struct {
	Session pawl.SessionID `path:"session" json:"-" doc:"the number of its session"`
	acting
}

type statusQuery struct {
	WaitMS int64 `query:"wait_ms" doc:"how long a job may wait before that is a trouble; default 10 minutes"`
}

type auditQuery struct {
	Subject string    `query:"subject" doc:"a letter's id, or queue NAME, kind NAME, job ID, host SESSION, schedule NAME, sink NAME, operation ID"`
	Who     string    `query:"who" doc:"by this person or program"`
	Action  string    `query:"action" doc:"such as redrive, clear or switch"`
	Since   time.Time `query:"since" doc:"at or after this time"`
	paging
}

type auditPage struct {
	Entries []wire.AuditEntry `json:"entries" doc:"this page"`
	Next    wire.Text         `json:"next" doc:"where the next page begins; null on the last"`
}

type sinkList struct {
	Sinks []wire.Sink `json:"sinks" doc:"by name"`
}
