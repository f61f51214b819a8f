package api

import (
	"encoding/json"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

type (
	filter = wire.Filter
	erased = wire.Erased
)

type lettersQuery struct {
	filter
	paging
}

type letterPage struct {
	Letters []wire.Letter `json:"letters" doc:"this page"`
	Next    wire.Text     `json:"next" doc:"where the next page begins; null on the last"`
}

type letterQuery struct {
	ID      pawl.ID `path:"id" json:"-" doc:"of the letter"`
	Payload bool    `query:"payload" doc:"the job too, with its args"`
}

type counted struct {
	Count int `json:"count" doc:"how many match"`
}

type groupsQuery struct {
	filter
	Limit pageSize `query:"limit" doc:"how many groups at most: 1 to 1000, default 50"`
}

type groups struct {
	Groups  []wire.Group `json:"groups" doc:"largest first; of the same size, the one that was seen last first"`
	All     int          `json:"all_groups" doc:"how many groups there are, those included that are not listed"`
	Letters int          `json:"letters" doc:"in all of them"`
	From    wire.Stamp   `json:"from" doc:"when the first span of each group's counts begins"`
	WidthMS int64        `json:"width_ms" doc:"how long each span is"`
}

type groupQuery struct {
	Group string `path:"group" json:"-" doc:"a fingerprint, or its beginning"`
}

type foundGroup struct {
	Group string `json:"group" doc:"the whole fingerprint"`
}

type letterPath struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the letter"`
}

type letterAct struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the letter"`
	acting
}

type letterAlerts struct {
	Alerts []wire.LetterAlert `json:"alerts" doc:"by sink"`
}

// again is what a redrive may change.
type again struct {
	Note       string     `json:"note,omitempty" doc:"replaces the letter's"`
	RetryUntil wire.Stamp `json:"retry_until,omitzero" doc:"start the new job until then only; not with retry_for_ms"`
	RetryForMS int64      `json:"retry_for_ms,omitempty" doc:"start the new job at most that long from now; not with retry_until"`
	Confirmed  bool       `json:"confirmed,omitempty" doc:"it was checked that the effect of a job whose outcome is unknown has not happened, or is wanted once more"`
	DryRun     bool       `json:"dry_run,omitempty" doc:"only say what would be refused"`
	acting
}

type redriving struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the letter"`
	again
	Args json.RawMessage `json:"args,omitempty" doc:"the new job's; the letter keeps the old ones. Their bytes are kept as they are"`
	// Many asks for the rules of many, such as those of a dry run before them.
	Many bool `json:"many,omitempty" doc:"with dry_run: by the rules for many"`
}

type redrivingMany struct {
	IDs []pawl.ID `json:"ids" doc:"of letters, at most 1,000"`
	again
}

type retryOnce struct {
	Note      string `json:"note,omitempty" doc:"replaces the letter's"`
	Confirmed bool   `json:"confirmed,omitempty" doc:"it was checked that the effect of a job whose outcome is unknown has not happened, or is wanted once more"`
	DryRun    bool   `json:"dry_run,omitempty" doc:"only say what would be refused"`
	acting
}

type retrying struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the letter"`
	retryOnce
}

type retryingMany struct {
	IDs []pawl.ID `json:"ids" doc:"of letters, at most 1,000"`
	retryOnce
}

type closing struct {
	IDs  []pawl.ID `json:"ids" doc:"of letters, at most 1,000"`
	Note string    `json:"note,omitempty" doc:"replaces the letter's"`
	acting
}

type forgetting struct {
	IDs []pawl.ID `json:"ids" doc:"of letters, at most 1,000"`
	acting
}

type forgotten struct {
	Forgotten bool `json:"forgotten" doc:"false: there was none"`
}

type letterActed struct {
	wire.LetterActed
	Problem *problem `json:"problem" doc:"why it was not done; null when it was"`
}

type letterActs struct {
	Results []letterActed `json:"results" doc:"result i belongs to id i"`
}

type pruning struct {
	Filter filter `json:"filter" doc:"which letters; status and status_before must be given"`
	acting
}

type pruned struct {
	Removed int `json:"removed" doc:"how many letters are gone"`
	Kept    int `json:"kept" doc:"how many are still needed: the outcome of their redrive is still to be written, or an operation works on them"`
}

type erasing struct {
	IDs           []pawl.ID `json:"ids,omitempty" doc:"of jobs or letters, at most 1,000"`
	CorrelationID string    `json:"correlation_id,omitempty" doc:"part of this request or process"`
	Tag           string    `json:"tag,omitempty" doc:"with this tag"`
	Kind          string    `json:"kind,omitempty" doc:"of this kind"`
	Text          string    `json:"text,omitempty" doc:"part of the args"`
	Texts         bool      `json:"texts,omitempty" doc:"erase what was written about the job too: messages, details, progress, notes and tags"`
	Unfinished    bool      `json:"unfinished,omitempty" doc:"remove jobs that have not ended"`
	Expect        int       `json:"expect,omitempty" doc:"do nothing unless there are so many"`
	DryRun        bool      `json:"dry_run,omitempty" doc:"count, and change nothing"`
	acting
}

type recording struct {
	Letters []wire.Death `json:"letters" doc:"at most 1,000"`
}

type recorded struct {
	Recorded []wire.Recorded `json:"recorded" doc:"result i belongs to letter i"`
}

type moving struct {
	Moves []wire.Move `json:"moves" doc:"at most 1,000"`
}

type result struct {
	OK      bool     `json:"ok" doc:"it was done"`
	Problem *problem `json:"problem" doc:"why it was not done; null when it was"`
}

type results struct {
	Results []result `json:"results" doc:"result i belongs to what was asked for i"`
}

type claiming struct {
	Session       pawl.SessionID `json:"session" doc:"of the host that delivers"`
	Sinks         []string       `json:"sinks" doc:"for which"`
	Max           int            `json:"max" doc:"for each sink"`
	StormDeaths   int            `json:"storm_deaths,omitempty" doc:"deaths of a window from which on there is a digest; default 30"`
	StormWindowMS int64          `json:"storm_window_ms,omitempty" doc:"default 1 minute"`
}

type alertTasks struct {
	Alerts []wire.Alert `json:"alerts" doc:"messages under lease"`
}

type settling struct {
	Results []delivery `json:"results" doc:"of deliveries"`
}

type delivery struct {
	Row       int64  `json:"row" doc:"of the message"`
	Token     int64  `json:"token" doc:"of its lease"`
	Delivered bool   `json:"delivered,omitempty" doc:"it was"`
	AfterMS   int64  `json:"after_ms,omitempty" doc:"when it failed: how long until it is tried again"`
	Error     string `json:"error,omitempty" doc:"why it failed"`
}
