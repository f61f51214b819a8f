package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
)

// The routes of acts on many letters, which are durable objects and are carried out by hosts.
var (
	createOperationRoute = to[beginning, begun](route{
		name: "CreateOperation", method: http.MethodPost, path: "/operations", needs: RoleOperator, creates: true,
		slow: true, repeats: true, // with an id
		doc: "Begin to act on many letters: on those that a filter matches now, or that are named; their set is frozen. With an id of the client's own it can be repeated without harm: 200 for one that was begun before.",
	})
	operationsRoute = to[operationsQuery, operationPage](route{
		name: "Operations", path: "/operations", needs: RoleViewer,
		doc: "List operations, newest first.",
	})
	operationRoute = to[operationPath, operation](route{
		name: "Operation", path: "/operations/{id}", needs: RoleViewer,
		doc: "Look at one operation and how far it has come.",
	})
	operationItemsRoute = to[itemsQuery, itemPage](route{
		name: "OperationItems", path: "/operations/{id}/items", needs: RoleViewer,
		doc: "List the letters of an operation in the order in which it deals with them.",
	})
	controlOperationsRoute = to[controlling, results](route{
		name: "ControlOperations", method: http.MethodPost, path: "/operations/control", needs: RoleOperator,
		doc: "Pause, resume or stop operations. Result i belongs to id i, and a refused one does not stop the others.",
	})
)

type operation = wire.Operation

type beginning struct {
	ID      ref         `json:"id,omitzero" doc:"made by the client, so that it can be repeated"`
	Action  pawl.Action `json:"action" doc:"redrive, resolve, discard or reopen"`
	Filter  filter      `json:"filter,omitzero" doc:"picks the letters, the oldest death first; or letters are named"`
	Letters []pawl.ID   `json:"letters,omitempty" doc:"names the letters, at most 10,000"`
	wire.OperationOptions
	acting
}

// begun is the answer: 201, or 200 for an operation that was begun before.
type begun struct {
	wire.Operation
	repeated bool
}

func (b begun) status() int {
	if b.repeated {
		return http.StatusOK
	}
	return http.StatusCreated
}

type operationsQuery struct {
	State  []string `query:"state" doc:"probing, running, paused, stopped or finished; may be repeated"`
	Action string   `query:"action" doc:"redrive, resolve, discard or reopen"`
	Who    string   `query:"who" doc:"begun by this person or program"`
	paging
}

type operationPage struct {
	Operations []wire.Operation `json:"operations" doc:"this page"`
	Next       wire.Text        `json:"next" doc:"where the next page begins; null on the last"`
}

type operationPath struct {
	ID pawl.ID `path:"id" json:"-" doc:"of the operation"`
}

type itemsQuery struct {
	ID      pawl.ID `path:"id" json:"-" doc:"of the operation"`
	State   string  `query:"state" doc:"waiting, refused, done or handing over"`
	Outcome string  `query:"redrive_outcome" doc:"pending, succeeded, died again or cancelled"`
	paging
}

type itemPage struct {
	Items []wire.OperationItem `json:"items" doc:"this page"`
	Next  wire.Text            `json:"next" doc:"where the next page begins; null on the last"`
}

type controlling struct {
	IDs    []pawl.ID   `json:"ids" doc:"of operations, at most 1,000"`
	Action pawl.Action `json:"action" doc:"pause, resume or stop"`
	acting
}

func operationsTable() []served {
	return []served{
		on(createOperationRoute, (*Handler).createOperation),
		on(operationsRoute, (*Handler).operations),
		on(operationRoute, (*Handler).operation),
		on(operationItemsRoute, (*Handler).operationItems),
		on(controlOperationsRoute, (*Handler).controlOperations),
	}
}

func (h *Handler) createOperation(ctx context.Context, c call, in beginning) (begun, error) {
	id, repeated := pawl.ID(in.ID), false
	if id.IsZero() {
		id = pawl.NewID()
	} else if _, err := h.store.Operation(ctx, id); err == nil {
		repeated = true
	} else if !errors.Is(err, pawl.ErrNotFound) {
		return begun{}, err
	}
	o, err := h.store.CreateOperation(ctx, pawl.NewOperation{
		ID: id, Action: in.Action, Filter: in.Filter.Read(), Letters: in.Letters, By: c.by(in.acting), Options: in.OperationOptions.Read(),
	})
	return begun{wire.OperationOf(o), repeated}, err
}

func (h *Handler) operations(ctx context.Context, c call, in operationsQuery) (operationPage, error) {
	filter := pawl.OperationFilter{
		State:  wire.Each(in.State, func(state string) pawl.OperationState { return pawl.OperationState(state) }),
		Action: pawl.Action(in.Action), Who: in.Who,
	}
	page, err := h.store.Operations(ctx, filter, in.page())
	return operationPage{wire.Each(page.Operations, c.operation), wire.Text(page.Next)}, err
}

// operation is an operation as the token may see it: its note and the text that it was picked by may repeat a message.
func (c call) operation(o pawl.Operation) wire.Operation {
	if c.hide {
		o.Options.Note, o.Filter.Text = hidden(o.Options.Note), hidden(o.Filter.Text)
	}
	return wire.OperationOf(o)
}

func (h *Handler) operation(ctx context.Context, c call, in operationPath) (operation, error) {
	found, err := h.store.Operation(ctx, in.ID)
	return c.operation(found), err
}

func (h *Handler) operationItems(ctx context.Context, _ call, in itemsQuery) (itemPage, error) {
	filter := pawl.ItemFilter{State: pawl.ItemState(in.State), Outcome: pawl.RedriveOutcome(in.Outcome)}
	page, err := h.store.OperationItems(ctx, in.ID, filter, in.page())
	return itemPage{wire.Each(page.Items, wire.OperationItemOf), wire.Text(page.Next)}, err
}

func (h *Handler) controlOperations(ctx context.Context, c call, in controlling) (results, error) {
	errs, err := h.store.ControlOperations(ctx, in.IDs, in.Action, c.by(in.acting))
	return resultsOf(errs), err
}

// CreateOperation is pawl.Operations.CreateOperation.
func (c *Client) CreateOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error) {
	act, err := actingOf(o.By)
	if err == nil {
		err = desk.CheckLetters(o.Filter)
	}
	if err == nil && o.ID.IsZero() {
		err = &pawl.FieldError{Field: "id", Value: "", Rule: "must not be zero"}
	}
	if err != nil {
		return pawl.Operation{}, err
	}
	answer, err := send(ctx, c, createOperationRoute, beginning{
		ref(o.ID), o.Action, wire.FilterOf(o.Filter), o.Letters, wire.OperationOptionsOf(o.Options), act,
	})
	return answer.Read(), err
}

// Operations is pawl.Operations.Operations.
func (c *Client) Operations(ctx context.Context, f pawl.OperationFilter, page pawl.Page) (pawl.OperationPage, error) {
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.OperationPage{}, err
	}
	states := wire.Each(f.State, func(state pawl.OperationState) string { return string(state) })
	answer, err := send(ctx, c, operationsRoute, operationsQuery{states, string(f.Action), f.Who, paging})
	return pawl.OperationPage{Operations: wire.Each(answer.Operations, wire.Operation.Read), Next: string(answer.Next)}, err
}

// Operation is pawl.Operations.Operation.
func (c *Client) Operation(ctx context.Context, id pawl.ID) (pawl.Operation, error) {
	answer, err := send(ctx, c, operationRoute, operationPath{id})
	return answer.Read(), err
}

// OperationItems is pawl.Operations.OperationItems.
func (c *Client) OperationItems(ctx context.Context, id pawl.ID, f pawl.ItemFilter, page pawl.Page) (pawl.ItemPage, error) {
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.ItemPage{}, err
	}
	answer, err := send(ctx, c, operationItemsRoute, itemsQuery{id, string(f.State), string(f.Outcome), paging})
	return pawl.ItemPage{Items: wire.Each(answer.Items, wire.OperationItem.Read), Next: string(answer.Next)}, err
}

// ControlOperations is pawl.Operations.ControlOperations.
func (c *Client) ControlOperations(ctx context.Context, ids []pawl.ID, action pawl.Action, by pawl.By) ([]error, error) {
	act, err := actingOf(by)
	if err != nil {
		return nil, err
	}
	answer, err := send(ctx, c, controlOperationsRoute, controlling{wire.List(ids), action, act})
	if err == nil && len(answer.Results) != len(ids) {
		err = shortAnswer(len(answer.Results), len(ids))
	}
	return wire.Each(answer.Results, func(r result) error { return r.Problem.err() }), err
}
