package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// A batch is one request, which can be repeated as it is; it grows while it is open.
func TestBatchOverHTTP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	batch, first, second, late := pawl.NewID(), pawl.NewID(), pawl.NewID(), pawl.NewID()
	body := fmt.Sprintf(`{"id":%q,"kind":"album.ready.v1","args":{"album": 7},"queue":"1-critical","delay_ms":60000,"members":[
		{"id":%q,"kind":"photo.resize.v1","args":{"photo":1}}, {"id":%q,"kind":"photo.resize.v1","args":{"photo":2},"batch":%[1]q}]}`, batch, first, second)
	for _, want := range []struct {
		status int
		text   string
	}{{http.StatusCreated, "accepted"}, {http.StatusOK, "repeated"}} {
		answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/batches", body)
		object := answer.object(t)
		if answer.StatusCode != want.status || object["id"] != batch.String() || object["queue"] != "1-critical" || strings.Count(string(answer.body), `"status":"`+want.text+`"`) != 3 {
			t.Errorf("%s: %s", answer.Status, answer.body)
		}
		for i, member := range object["members"].([]any) {
			if id := member.(map[string]any)["id"]; id != []pawl.ID{first, second}[i].String() {
				t.Errorf("member %d is %v", i, id)
			}
		}
	}
	answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{"id":%q,"kind":"photo.resize.v1","args":{"photo":3},"batch":%q}`, late, batch))
	if answer.StatusCode != http.StatusCreated {
		t.Errorf("one more member: %s: %s", answer.Status, answer.body)
	}
	view := w.ask(api.RoleViewer, http.MethodGet, "/api/v1/batches/"+batch.String(), "").object(t)
	if got := fmt.Sprint(view["kind"], view["queue"], view["state"], view["members"], view["pending"], view["ended_at"]); got != "album.ready.v11-criticalopen3 3 <nil>" {
		t.Errorf("the batch is %s", got)
	}
	members := w.ask(api.RoleViewer, http.MethodGet, "/api/v1/batches/"+batch.String()+"/members", "").object(t)["jobs"].([]any)
	if len(members) != 3 {
		t.Errorf("%d members", len(members))
	}
	for _, id := range []pawl.ID{first, second, late} {
		if _, e := w.envelope(id); e.Batch != batch {
			t.Errorf("job %s is in batch %s", id, e.Batch)
		}
	}

	session, err := w.store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{"photo.resize.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := w.store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{"photo.resize.v1"}, Max: 10})
	if err != nil || len(claimed.Jobs) != 3 {
		t.Fatal(claimed, err)
	}
	for _, job := range claimed.Jobs {
		if _, err := w.store.Settle(t.Context(), session, []pawl.Settlement{{Reservation: job.Reservation, Outcome: pawl.Done{}}}); err != nil {
			t.Fatal(err)
		}
	}
	callback, e := w.envelope(batch)
	if callback.State != pawl.JobScheduled || string(e.Args) != `{"album": 7}` || e.After != (pawl.BatchEnd{Batch: batch, Done: 3}) {
		t.Errorf("what follows is %+v, %+v", callback, e)
	}
	p := w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", fmt.Sprintf(`{"jobs":[{"kind":"a","args":{}},{"kind":"a","args":{},"batch":%q}]}`, batch)), http.StatusConflict, "batch_ended")
	if detail := fmt.Sprint(p["detail"]); !strings.Contains(detail, "cannot join batch "+batch.String()) {
		t.Errorf("it says %s", detail)
	}
	if answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/batches", body); answer.StatusCode != http.StatusOK {
		t.Errorf("a repeat after the end: %s: %s", answer.Status, answer.body)
	}
	if jobs, err := w.store.Jobs(t.Context(), pawl.JobFilter{Kind: "a"}, pawl.Page{}); err != nil || len(jobs.Jobs) > 0 {
		t.Errorf("a refused call has stored %d jobs, %v", len(jobs.Jobs), err)
	}
}

// What cannot be a batch is refused, and nothing is stored.
func TestBatchesAreChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for fields, want := range map[string]string{
		`"args":{}`:          "invalid kind",
		`"kind":"a"`:         "",
		`"kind":"a","odd":1`: "is not known here",
		`"kind":"a","args":{},"run_at":"2100-01-01T00:00:00Z"`:                                                             "must not be given for the job that follows a batch",
		`"kind":"a","args":{},"unique":{"key":"k","scope":"waiting"}`:                                                      "must not be given for the job that follows a batch",
		`"kind":"a","args":{},"batch":"` + pawl.NewID().String() + `"`:                                                     "must not be given for the job that follows a batch",
		`"kind":"a","args":{},"letter_id":"` + pawl.NewID().String() + `"`:                                                 "must not be given for the job that follows a batch",
		`"kind":"a","args":{},"members":[{"kind":"b","args":1},{"kind":"","args":1}]`:                                      "member 2 of 2: ",
		`"kind":"a","args":{},"members":[{"kind":"b","args":1,"batch":"` + pawl.NewID().String() + `"}]`:                   "must not be in another batch",
		`"kind":"a","args":{},"members":[{"kind":"b","args":1,"letter_id":"` + pawl.NewID().String() + `"}]`:               "member 1 of 1: ",
		`"kind":"a","args":{},"members":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"b","args":1},`, 1001), ",") + `]`: "must be at least 1 and at most 1000",
	} {
		p := w.refused(w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/batches", "{"+fields+"}"), http.StatusBadRequest, "invalid")
		if detail := fmt.Sprint(p["detail"]); !strings.Contains(detail, want) {
			t.Errorf("%.80s: it says %s, want %s", fields, detail, want)
		}
	}
	jobs, err := w.store.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{})
	batches, batchesErr := w.store.Batches(t.Context(), pawl.BatchFilter{}, pawl.Page{})
	if err = errors.Join(err, batchesErr); err != nil || len(jobs.Jobs)+len(batches.Batches) > 0 {
		t.Errorf("%d jobs and %d batches were stored, %v", len(jobs.Jobs), len(batches.Batches), err)
	}
}

// A kind opens batches over the network as in a store, one a call.
func TestClientOpensBatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	client := w.dial(api.RoleEnqueue)
	kind := pawl.NewKind[int]("mail.v1", pawl.Policy{})
	members, err := kind.NewMany(t.Context(), client.Connection(), make([]int, 1001))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := kind.EnqueueAfter(t.Context(), client, members[:1000], 7)
	if err != nil || opened.Status != pawl.Accepted {
		t.Fatalf("%+v, %v", opened, err)
	}
	if _, err := kind.Enqueue(t.Context(), client, 8, pawl.InBatch(opened.ID)); err != nil {
		t.Errorf("one more member: %v", err)
	}
	if batch, err := w.store.Batch(t.Context(), opened.ID); err != nil || batch.Members != 1001 {
		t.Errorf("the batch is %+v, %v", batch, err)
	}
	if _, err := kind.EnqueueAfter(t.Context(), client, members, 7); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("1,001 members: %v", err)
	}
	if _, err := kind.Enqueue(t.Context(), client, 8, pawl.InBatch(pawl.NewID())); !errors.Is(err, pawl.ErrBatchEnded) {
		t.Errorf("no such batch: %v", err)
	}
	callback := members[1000]
	callback.Opens = true
	for name, jobs := range map[string][]pawl.NewJob{
		"a job that is no member":   {callback, members[0]},
		"the callback comes second": {members[0], callback},
		"two batches":               {callback, callback},
	} {
		if _, err := client.Enqueue(t.Context(), jobs); !errors.Is(err, pawl.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
