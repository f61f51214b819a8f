package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// The routes of outboxes. They lie in business databases, which the server knows and its clients do not: what is done to one is
// kept there and in the server's log, and not in the store's audit trail.
var (
	outboxesRoute = to[none, outboxList](route{
		name: "Outboxes", path: "/outboxes", needs: RoleViewer,
		doc: "Say how every outbox stands that this server knows: what waits, what fails, how old the oldest is. One that cannot be read says why.",
	})
	outboxRoute = to[outboxPath, wire.Outbox](route{
		name: "Outbox", path: "/outboxes/{outbox}", needs: RoleViewer,
		doc: "Say how an outbox stands.",
	})
	outboxMessagesRoute = to[messagesQuery, messagePage](route{
		name: "OutboxMessages", path: "/outboxes/{outbox}/messages", needs: RoleViewer,
		doc: "List the messages of an outbox that wait, by the connection that they are for, the oldest first.",
	})
	outboxMessageRoute = to[messageQuery, wire.OutboxMessageDetail](route{
		name: "OutboxMessage", path: "/outboxes/{outbox}/messages/{id}", needs: RoleViewer,
		doc: "Look at one message. One that was dispatched is a job of its id, and one that could not be is a dead letter.",
	})
	pauseOutboxRoute = to[pausingOutbox, none](route{
		name: "PauseOutbox", method: http.MethodPut, path: "/outboxes/{outbox}/pause", needs: RoleOperator,
		doc: "Pause an outbox or let it go on, for all its dispatchers of every host with their next claim. A pause needs a reason.",
	})
	retryMessagesRoute = to[messagesAct, results](route{
		name: "RetryMessages", method: http.MethodPost, path: "/outboxes/{outbox}/retry", needs: RoleOperator, repeats: true,
		doc: "Have failing messages tried again at once, at most 1,000, as if no claim of them had failed. Result i belongs to id i.",
	})
	purgeOutboxRoute = to[purgingOutbox, purgedOutbox](route{
		name: "PurgeOutbox", method: http.MethodPost, path: "/outboxes/{outbox}/purge", needs: RoleAdmin, slow: true, repeats: true,
		doc: "Remove rows of dispatched and dead messages that were kept to be looked at. No job, no letter and nothing that waits is touched.",
	})
)

type outboxList struct {
	Outboxes []wire.Outbox `json:"outboxes" doc:"by name; none where the server knows none"`
}

type outboxPath struct {
	Outbox string `path:"outbox" json:"-" doc:"its name"`
}

type messagesQuery struct {
	Outbox  string `path:"outbox" json:"-" doc:"its name"`
	To      string `query:"to" doc:"for this connection"`
	Failing bool   `query:"failing" doc:"only those that a claim of has failed"`
	paging
}

type messagePage struct {
	Messages []wire.OutboxMessage `json:"messages" doc:"this page"`
	Next     wire.Text            `json:"next" doc:"where the next page begins; null on the last"`
}

type messageQuery struct {
	Outbox  string  `path:"outbox" json:"-" doc:"its name"`
	ID      pawl.ID `path:"id" json:"-" doc:"of the message"`
	Payload bool    `query:"payload" doc:"the job too"`
}

type pausingOutbox struct {
	Outbox string `path:"outbox" json:"-" doc:"its name"`
	Paused *bool  `json:"paused" doc:"true stops its dispatchers, false lets them go on"`
	acting
}

type messagesAct struct {
	Outbox string    `path:"outbox" json:"-" doc:"its name"`
	IDs    []pawl.ID `json:"ids" doc:"of messages, at most 1,000"`
	acting
}

type purgingOutbox struct {
	Outbox  string `path:"outbox" json:"-" doc:"its name"`
	OlderMS *int64 `json:"older_ms" doc:"of messages that ended longer ago"`
	acting
}

type purgedOutbox struct {
	Removed int `json:"removed" doc:"how many rows"`
}

func outboxesTable() []served {
	return []served{
		on(outboxesRoute, (*Handler).outboxes),
		on(outboxRoute, (*Handler).outbox),
		on(outboxMessagesRoute, (*Handler).outboxMessages),
		on(outboxMessageRoute, (*Handler).outboxMessage),
		on(pauseOutboxRoute, (*Handler).pauseOutbox),
		on(retryMessagesRoute, (*Handler).retryMessages),
		on(purgeOutboxRoute, (*Handler).purgeOutbox),
	}
}

func checkOutbox(name string, box pawl.Outbox) error {
	if box == nil {
		return &pawl.FieldError{Field: "outbox", Value: name, Rule: "must be an outbox"}
	}
	return desk.CheckName("outbox", name)
}

// lookAt asks outboxes how they stand, and leaves time for the rest of an answer.
func (h *Handler) lookAt(ctx context.Context, boxes map[string]pawl.Outbox) []ops.OutboxLook {
	return ops.LookAtOutboxes(ctx, boxes, h.timeout/3)
}

func (h *Handler) outboxes(ctx context.Context, _ call, _ none) (outboxList, error) {
	return outboxList{wire.Each(h.lookAt(ctx, h.boxes), wire.OutboxOf)}, nil
}

// box finds an outbox by its name.
func (h *Handler) box(name string) (pawl.Outbox, error) {
	if box := h.boxes[name]; box != nil {
		return box, nil
	}
	knows := "no outboxes"
	if len(h.boxes) > 0 {
		knows = strings.Join(slices.Sorted(maps.Keys(h.boxes)), ", ")
	}
	return nil, fmt.Errorf("outbox %s: %w: the server knows %s", name, pawl.ErrNotFound, knows)
}

func (h *Handler) outbox(ctx context.Context, _ call, in outboxPath) (wire.Outbox, error) {
	box, err := h.box(in.Outbox)
	if err != nil {
		return wire.Outbox{}, err
	}
	stats, err := box.Stats(ctx)
	return wire.OutboxOf(ops.OutboxLook{Name: in.Outbox, Stats: stats}), err
}

func (h *Handler) outboxMessages(ctx context.Context, c call, in messagesQuery) (messagePage, error) {
	box, err := h.box(in.Outbox)
	if err != nil {
		return messagePage{}, err
	}
	found, next, err := box.Messages(ctx, pawl.OutboxFilter{Connection: in.To, Failing: in.Failing}, in.page())
	page := messagePage{wire.Each(found, wire.OutboxMessageOf), wire.Text(next)}
	if c.hide {
		for i := range page.Messages {
			page.Messages[i].LastError = hidden(page.Messages[i].LastError)
		}
	}
	return page, err
}

func (h *Handler) outboxMessage(ctx context.Context, c call, in messageQuery) (wire.OutboxMessageDetail, error) {
	box, err := h.box(in.Outbox)
	if err != nil {
		return wire.OutboxMessageDetail{}, err
	}
	found, err := box.Message(ctx, in.ID)
	detail := wire.OutboxMessageDetailOf(found, in.Payload && !c.hide)
	if c.hide {
		detail.LastError = hidden(detail.LastError)
	}
	return detail, err
}

func (h *Handler) pauseOutbox(ctx context.Context, c call, in pausingOutbox) (none, error) {
	box, err := h.box(in.Outbox)
	switch {
	case err != nil:
		return none{}, err
	case in.Paused == nil:
		return none{}, &pawl.FieldError{Field: "paused", Value: "", Rule: "must be given"}
	case *in.Paused && in.Reason == "":
		return none{}, &pawl.FieldError{Field: "reason", Value: "", Rule: "must be given: somebody will want to know"}
	}
	by := c.by(in.acting)
	if *in.Paused {
		err = box.SwitchOff(ctx, by)
	} else {
		err = box.SwitchOn(ctx)
	}
	if err == nil {
		h.log.Info("api: outbox paused or resumed", "outbox", in.Outbox, "paused", *in.Paused, "by", by.Who, "reason", by.Why)
	}
	return none{}, err
}

func (h *Handler) retryMessages(ctx context.Context, c call, in messagesAct) (results, error) {
	box, err := h.box(in.Outbox)
	if err == nil {
		err = fewEnough("ids", len(in.IDs))
	}
	if err != nil {
		return results{}, err
	}
	errs, err := box.Retry(ctx, in.IDs)
	if err == nil {
		by := c.by(in.acting)
		h.log.Info("api: messages of an outbox are tried again", "outbox", in.Outbox, "messages", len(in.IDs), "by", by.Who, "reason", by.Why)
	}
	return results{wire.Each(errs, func(err error) result { return result{err == nil, refusal(err)} })}, err
}

func (h *Handler) purgeOutbox(ctx context.Context, c call, in purgingOutbox) (purgedOutbox, error) {
	box, err := h.box(in.Outbox)
	switch {
	case err != nil:
		return purgedOutbox{}, err
	case in.OlderMS == nil:
		return purgedOutbox{}, &pawl.FieldError{Field: "older_ms", Value: "", Rule: "must be given"}
	}
	removed, err := box.Purge(ctx, wire.Span(*in.OlderMS))
	if removed > 0 {
		by := c.by(in.acting)
		h.log.Info("api: kept rows of an outbox are removed", "outbox", in.Outbox, "rows", removed, "by", by.Who, "reason", by.Why)
	}
	return purgedOutbox{removed}, err
}

// Outboxes says how every outbox stands that the server knows, by name.
func (c *Client) Outboxes(ctx context.Context) ([]ops.OutboxLook, error) {
	answer, err := send(ctx, c, outboxesRoute, none{})
	return wire.Each(answer.Outboxes, wire.Outbox.Read), err
}

// Outbox is one of the outboxes that the server knows. Where it knows none of this name, calls say pawl.ErrNotFound.
func (c *Client) Outbox(name string) pawl.Outbox { return farOutbox{c, name} }

type farOutbox struct {
	client *Client
	name   string
}

// askOutbox answers itself for what no path can name.
func askOutbox[In, Out any](ctx context.Context, o farOutbox, e endpoint[In, Out], in In) (out Out, err error) {
	if desk.CheckName("outbox", o.name) != nil {
		return out, fmt.Errorf("outbox %q: %w", o.name, pawl.ErrNotFound)
	}
	return send(ctx, o.client, e, in)
}

func (o farOutbox) Stats(ctx context.Context) (pawl.OutboxStats, error) {
	answer, err := askOutbox(ctx, o, outboxRoute, outboxPath{o.name})
	return answer.Read().Stats, err
}

func (o farOutbox) Messages(ctx context.Context, filter pawl.OutboxFilter, page pawl.Page) (found []pawl.OutboxMessage, next string, err error) {
	paging, err := pagingOf(page)
	if err != nil {
		return nil, "", err
	}
	answer, err := askOutbox(ctx, o, outboxMessagesRoute, messagesQuery{o.name, filter.Connection, filter.Failing, paging})
	return wire.Each(answer.Messages, wire.OutboxMessage.Read), string(answer.Next), err
}

func (o farOutbox) Message(ctx context.Context, id pawl.ID) (pawl.OutboxMessage, error) {
	answer, err := askOutbox(ctx, o, outboxMessageRoute, messageQuery{o.name, id, true})
	return answer.Read(), err
}

func (o farOutbox) Retry(ctx context.Context, ids []pawl.ID) ([]error, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	answer, err := askOutbox(ctx, o, retryMessagesRoute, messagesAct{Outbox: o.name, IDs: ids})
	if err == nil && len(answer.Results) != len(ids) {
		err = shortAnswer(len(answer.Results), len(ids))
	}
	return wire.Each(answer.Results, func(r result) error { return r.Problem.err() }), err
}

func (o farOutbox) SwitchOff(ctx context.Context, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = o.pause(ctx, true, act)
	}
	return err
}

func (o farOutbox) SwitchOn(ctx context.Context) error { return o.pause(ctx, false, acting{}) }

func (o farOutbox) pause(ctx context.Context, paused bool, act acting) error {
	_, err := askOutbox(ctx, o, pauseOutboxRoute, pausingOutbox{o.name, &paused, act})
	return err
}

func (o farOutbox) Purge(ctx context.Context, age time.Duration) (int, error) {
	ms := age.Milliseconds()
	answer, err := askOutbox(ctx, o, purgeOutboxRoute, purgingOutbox{Outbox: o.name, OlderMS: &ms})
	return answer.Removed, err
}
