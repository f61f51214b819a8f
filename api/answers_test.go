package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// Every route is asked, well and badly, and every answer fits its description.
func TestAnswersFitTheirDescription(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	w := setup(t, withOutbox(shop))
	d := w.description()
	ids := w.letters(12)
	session, err := w.store.OpenSession(t.Context(), pawl.HostInfo{
		Name: "worker-1", PID: 7, Kinds: []string{"mail.v1"}, Sinks: []string{"mail"},
		Servers: []pawl.ServerInfo{{Name: "io", Queues: []string{"2-default"}, Weights: map[string]int{"2-default": 2}, Workers: 4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.letters(1)
	job := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"kind":"mail.v1","args":{},"delay_ms":60000}`)
	jobID := job.object(t)["id"]
	operationID, batchID := pawl.NewID(), pawl.NewID()
	asked := map[string]bool{}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"About", "GET", "", "", 200},
		{"Describe", "GET", "/openapi.json", "", 200},
		{"Enqueue", "POST", "/jobs", `{"kind":"mail.v1","args":{}}`, 201},
		{"Enqueue", "POST", "/jobs", `{"jobs":[{"kind":"mail.v1","args":{}}]}`, 201},
		{"Enqueue", "POST", "/jobs", `{"kind":"mail.v1","args":{},"id":"` + fmt.Sprint(jobID) + `"}`, 200},
		{"Enqueue", "POST", "/jobs", `{"kind":"mail.v1","args":{},"max_tries":0}`, 400},
		{"Jobs", "GET", "/jobs?limit=2", "", 200},
		{"Jobs", "GET", "/jobs?state=odd", "", 400},
		{"Job", "GET", "/jobs/" + fmt.Sprint(jobID) + "?payload=true", "", 200},
		{"Job", "GET", "/jobs/" + pawl.NewID().String(), "", 404},
		{"RunJobsNow", "POST", "/jobs/run-now", `{"ids":["` + fmt.Sprint(jobID) + `","` + pawl.NewID().String() + `"]}`, 200},
		{"CancelJobs", "POST", "/jobs/cancel", `{"ids":["` + fmt.Sprint(jobID) + `"]}`, 200},
		{"DeleteJobs", "POST", "/jobs/delete", `{"ids":["` + fmt.Sprint(jobID) + `"]}`, 200},
		{"EnqueueBatch", "POST", "/batches", `{"id":"` + batchID.String() + `","kind":"album.v1","args":{},"members":[{"kind":"mail.v1","args":1},{"kind":"mail.v1","args":2}]}`, 201},
		{"EnqueueBatch", "POST", "/batches", `{"id":"` + batchID.String() + `","kind":"album.v1","args":{}}`, 200},
		{"EnqueueBatch", "POST", "/batches", `{"kind":"album.v1","args":{},"run_at":"2100-01-01T00:00:00Z"}`, 400},
		{"Enqueue", "POST", "/jobs", `{"kind":"mail.v1","args":{},"batch":"` + batchID.String() + `"}`, 201},
		{"Enqueue", "POST", "/jobs", `{"kind":"mail.v1","args":{},"batch":"` + pawl.NewID().String() + `"}`, 409},
		{"Batches", "GET", "/batches?state=open&kind=album.v1", "", 200},
		{"Batches", "GET", "/batches?state=odd", "", 400},
		{"Batch", "GET", "/batches/" + batchID.String(), "", 200},
		{"Batch", "GET", "/batches/" + pawl.NewID().String(), "", 404},
		{"BatchMembers", "GET", "/batches/" + batchID.String() + "/members?limit=2", "", 200},
		{"BatchMembers", "GET", "/batches/" + pawl.NewID().String() + "/members", "", 404},
		{"Queues", "GET", "/queues", "", 200},
		{"BusyQueues", "GET", "/busy-queues", "", 200},
		{"QueueHeads", "GET", "/queue-heads", "", 200},
		{"PauseQueue", "PUT", "/queues/2-default/pause", `{"paused":true,"until":"2100-01-01T00:00:00Z"}`, 200},
		{"PauseQueue", "PUT", "/queues/2-default/pause", `{}`, 400},
		{"SwitchKind", "PUT", "/kinds/mail.v1/switch", `{"on":false}`, 200},
		{"Switches", "GET", "/switches", "", 200},
		{"ResetKind", "POST", "/kinds/mail.v1/reset", `{"reason":"the trial is over"}`, 200},
		{"ResetKind", "POST", "/kinds/mail.v1/reset", `{}`, 404},
		{"Limits", "GET", "/limits", "", 0},
		{"SetLimit", "PUT", "/kinds/mail.v1/limit", `{"limit":{"starts":-1}}`, 0},
		{"ClearQueue", "POST", "/queues/2-default/clear", `{"reason":"imported twice"}`, 200},
		{"Hosts", "GET", "/hosts", "", 200},
		{"QuietHost", "POST", fmt.Sprintf("/hosts/%d/quiet", session), `{}`, 200},
		{"DrainHost", "POST", fmt.Sprintf("/hosts/%d/drain", session), "", 200},
		{"DrainHost", "POST", "/hosts/4711/drain", "", 404},
		{"ForgetSink", "POST", "/sinks/nobody/forget", `{}`, 404},
		{"Status", "GET", "/status?wait_ms=1000", "", 200},
		{"AddSchedule", "POST", "/schedules", `{"name":"nightly","spec":"30 2 * * *","zone":"Asia/Kathmandu","kind":"mail.v1","args":{"n": 1},"backoff_ms":[1000],"redrive":"one-by-one","reason":"asked"}`, 200},
		{"AddSchedule", "POST", "/schedules", `{"name":"nightly","spec":"1h","kind":"mail.v1"}`, 409},
		{"AddSchedule", "POST", "/schedules", `{"name":"odd","spec":"61 * * * *","kind":"mail.v1"}`, 400},
		{"AddSchedule", "POST", "/schedules", `{"name":"odd","spec":"1h","kind":"mail.v1","redrive":"perhaps"}`, 400},
		{"SetSchedule", "PUT", "/schedules/nightly", `{"spec":"1h","kind":"mail.v1"}`, 200},
		{"SetSchedule", "PUT", "/schedules/nobody", `{"spec":"1h","kind":"mail.v1"}`, 404},
		{"PauseSchedule", "PUT", "/schedules/nightly/pause", `{"paused":true}`, 200},
		{"PauseSchedule", "PUT", "/schedules/nightly/pause", `{}`, 400},
		{"Schedules", "GET", "/schedules?prefix=night", "", 200},
		{"RunSchedule", "POST", "/schedules/nightly/run-now", `{}`, 200},
		{"RunSchedule", "POST", "/schedules/nightly/run-now", `{}`, 409},
		{"Schedule", "GET", "/schedules/nightly", "", 200},
		{"Schedule", "GET", "/schedules/nobody", "", 404},
		{"Ticks", "GET", "/schedule-ticks?schedule=nightly&count=2", "", 200},
		{"Ticks", "GET", "/schedule-ticks?spec=@daily&zone=Europe/Berlin", "", 200},
		{"Ticks", "GET", "/schedule-ticks?spec=@daily&count=0", "", 400},
		{"Ticks", "GET", "/schedule-ticks?spec=@daily&count=1001", "", 400},
		{"Ticks", "GET", "/schedule-ticks", "", 400},
		{"Ticks", "GET", "/schedule-ticks?schedule=nobody", "", 404},
		{"DeleteSchedule", "POST", "/schedules/nightly/delete", `{}`, 200},
		{"DeleteSchedule", "POST", "/schedules/nightly/delete", `{}`, 404},
		{"Outboxes", "GET", "/outboxes", "", 200},
		{"Outbox", "GET", "/outboxes/shop", "", 200},
		{"OutboxMessages", "GET", "/outboxes/shop/messages?failing=true&to=default&limit=1", "", 200},
		{"OutboxMessages", "GET", "/outboxes/shop/messages?after=x", "", 400},
		{"OutboxMessage", "GET", "/outboxes/shop/messages/" + shop.ids[0].String() + "?payload=true", "", 200},
		{"OutboxMessage", "GET", "/outboxes/shop/messages/" + shop.ids[2].String(), "", 200},
		{"OutboxMessage", "GET", "/outboxes/shop/messages/" + pawl.NewID().String(), "", 404},
		{"PauseOutbox", "PUT", "/outboxes/shop/pause", `{"paused":true,"reason":"it moves"}`, 200},
		{"PauseOutbox", "PUT", "/outboxes/shop/pause", `{"paused":true}`, 400},
		{"PauseOutbox", "PUT", "/outboxes/shop/pause", `{"reason":"it moves"}`, 400},
		{"PauseOutbox", "PUT", "/outboxes/shop/pause", `{"paused":false}`, 200},
		{"RetryMessages", "POST", "/outboxes/shop/retry", `{"ids":["` + shop.ids[1].String() + `","` + pawl.NewID().String() + `"]}`, 200},
		{"RetryMessages", "POST", "/outboxes/shop/retry", `{"ids":[]}`, 400},
		{"PurgeOutbox", "POST", "/outboxes/shop/purge", `{"older_ms":3600000,"reason":"looked at"}`, 200},
		{"PurgeOutbox", "POST", "/outboxes/shop/purge", `{}`, 400},
		{"PurgeOutbox", "POST", "/outboxes/shop/purge", `{"older_ms":-1}`, 400},
		{"Letters", "GET", "/dead?status=dead&status=redriven&limit=3", "", 200},
		{"Letter", "GET", "/dead/" + ids[0].String() + "?payload=true", "", 200},
		{"CountLetters", "GET", "/dead/count?kind=mail.v1", "", 200},
		{"LetterGroups", "GET", "/groups?since=2020-01-01T00:00:00Z", "", 200},
		{"FindGroup", "GET", "/groups/1-a", "", 200},
		{"AlertsOf", "GET", "/dead/" + ids[0].String() + "/alerts", "", 200},
		{"Redrive", "POST", "/dead/" + ids[0].String() + "/redrive", `{"args":{"to":"b"},"by":"grace","note":"mended"}`, 200},
		{"Redrive", "POST", "/dead/" + ids[0].String() + "/redrive", `{}`, 409},
		{"Redrive", "POST", "/dead/" + ids[1].String() + "/redrive", `{"dry_run":true,"many":true}`, 200},
		{"RedriveMany", "POST", "/dead/redrive", `{"ids":["` + ids[0].String() + `","` + ids[1].String() + `"]}`, 200},
		{"Retry", "POST", "/dead/" + ids[2].String() + "/retry", `{}`, 200},
		{"RetryMany", "POST", "/dead/retry", `{"ids":["` + ids[3].String() + `"],"dry_run":true}`, 200},
		{"ResolveMany", "POST", "/dead/resolve", `{"ids":["` + ids[4].String() + `"]}`, 200},
		{"DiscardMany", "POST", "/dead/discard", `{"ids":["` + ids[5].String() + `"]}`, 200},
		{"ReopenMany", "POST", "/dead/reopen", `{"ids":["` + ids[5].String() + `"]}`, 200},
		{"NoteMany", "POST", "/dead/note", `{"ids":["` + ids[5].String() + `"],"note":"asked"}`, 200},
		{"ForgetLetter", "POST", "/dead/" + ids[6].String() + "/forget", `{}`, 200},
		{"ForgetMany", "POST", "/dead/forget", `{"ids":["` + ids[6].String() + `"]}`, 200},
		{"PruneLetters", "POST", "/dead/prune", `{"filter":{"status":["resolved"],"status_before":"2100-01-01T00:00:00Z"}}`, 0},
		{"EraseArgs", "POST", "/erase", `{"tag":"nobody","dry_run":true}`, 0},
		{"Audit", "GET", "/audit?who=the-admin", "", 200},
		{"Sinks", "GET", "/sinks", "", 200},
		{"RecordDeaths", "POST", "/dead", `{"letters":[{"id":"` + pawl.NewID().String() + `","kind":"mail.v1","queue":"2-default","connection":"default","envelope_base64":""}]}`, 200},
		{"MoveLetters", "POST", "/dead/moves", `{"moves":[{"letter_id":"` + ids[7].String() + `","action":"resolve"},{"letter_id":"` + ids[7].String() + `","action":"odd"}]}`, 200},
		{"ClaimAlerts", "POST", "/alerts/claim", fmt.Sprintf(`{"session":%d,"sinks":["mail"],"max":10}`, session), 200},
		{"SettleAlerts", "POST", "/alerts/settle", `{"results":[{"row":4711,"token":1,"delivered":true}]}`, 200},
		{"CreateOperation", "POST", "/operations", `{"id":"` + operationID.String() + `","action":"resolve","filter":{"status":["dead"]},"rate":1}`, 201},
		{"CreateOperation", "POST", "/operations", `{"id":"` + operationID.String() + `","action":"resolve","filter":{"status":["dead"]},"rate":1}`, 200},
		{"Operations", "GET", "/operations?state=running", "", 200},
		{"Operation", "GET", "/operations/" + operationID.String(), "", 200},
		{"OperationItems", "GET", "/operations/" + operationID.String() + "/items", "", 200},
		{"ControlOperations", "POST", "/operations/control", `{"ids":["` + operationID.String() + `"],"action":"stop"}`, 200},
	} {
		answer := w.ask(api.RoleAdmin, c.method, "/api/v1"+c.path, c.body)
		if answer.StatusCode != c.status && c.status != 0 {
			t.Errorf("%s %s: %s: %s", c.method, c.path, answer.Status, answer.body)
			continue
		}
		asked[c.name] = true
		w.fits(d, c.name, answer)
		if text := string(answer.body); strings.Contains(text, `: conflict"`) || strings.Contains(text, `: redrive refused"`) || strings.Contains(text, `: batch has ended"`) {
			t.Errorf("%s: a text ends with the name of an error: %s", c.path, text)
		}
		if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", c.path, answer.Header)
		}
	}
	for name := range d.operations() {
		if !asked[name] {
			t.Errorf("route %s was not asked", name)
		}
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	w := setup(t)
	whole := w.ask(api.RoleViewer, http.MethodGet, "/api/v1/queues", "")
	head := w.ask(api.RoleViewer, http.MethodHead, "/api/v1/queues", "")
	if head.StatusCode != 200 || len(head.body) > 0 || head.Header.Get("Content-Length") != whole.Header.Get("Content-Length") {
		t.Errorf("HEAD answers %s with %d bytes, %v", head.Status, len(head.body), head.Header)
	}
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", "/api/v1/jobs", "POST, GET, HEAD"},
		{"GET", "/api/v1/jobs/cancel", "POST"},
		{"POST", "/api/v1/queues", "GET, HEAD"},
		{"OPTIONS", "/api/v1/hosts", "GET, HEAD"},
	} {
		answer := w.ask(api.RoleAdmin, c.method, c.path, "")
		w.refused(answer, http.StatusMethodNotAllowed, "method_not_allowed")
		if answer.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s allows %q", c.method, c.path, answer.Header.Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/api", "/api/v2/jobs", "/api/v1/nothing", "/api/v1/jobs/", "/api/v1//jobs", "/api/v1/../jobs", "/api/v1/queues//clear"} {
		p := w.refused(w.ask(api.RoleAdmin, http.MethodGet, path, ""), http.StatusNotFound, "no_route")
		if want := "there is no " + path + ": see"; !strings.HasPrefix(fmt.Sprint(p["detail"]), want) {
			t.Errorf("%s: %v, want %q", path, p["detail"], want)
		}
	}
	if answer := w.ask(api.RoleViewer, http.MethodGet, "/api/v1/", ""); answer.StatusCode != 200 || answer.object(t)["role"] != "viewer" {
		t.Errorf("the root answers %s: %s", answer.Status, answer.body)
	}
}

// Names that no path segment takes as they are still mean themselves.
func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	w := setup(t)
	client := w.dial(api.RoleAdmin)
	by := pawl.By{Who: "ada", Why: "test"}
	for _, name := range []string{".", "..", "a/b", "a b", "ä%2F?#", "{queue}", "clear"} {
		if err := client.PauseQueue(t.Context(), pawl.QueuePause{Queue: name, Paused: true}, by); err != nil {
			t.Errorf("pause %q: %v", name, err)
		}
		if err := client.SwitchKind(t.Context(), pawl.KindSwitch{Kind: name, Until: time.Now().Add(time.Hour)}, by); err != nil {
			t.Errorf("switch %q: %v", name, err)
		}
		if _, err := client.ClearQueue(t.Context(), name, by); err != nil {
			t.Errorf("clear %q: %v", name, err)
		}
	}
	set, err := w.store.Switches(t.Context())
	if err != nil || len(set.Queues) != 7 || len(set.Kinds) != 7 {
		t.Errorf("%d queues are paused and %d kinds switched, %v", len(set.Queues), len(set.Kinds), err)
	}
}

func TestInputIsChecked(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.MaxBody = 100_000 })
	for _, c := range []struct{ method, path, body, field, rule string }{
		{"GET", "/jobs?limt=3", "", "name", "not known"},
		{"GET", "/jobs?limit=3&limit=4", "", "limit", "once"},
		{"GET", "/jobs?limit=x", "", "limit", "whole number"},
		{"GET", "/jobs?limit=1001", "", "limit", "1 to 1000"},
		{"GET", "/jobs?limit=0", "", "limit", "1 to 1000"},
		{"GET", "/jobs?limit=", "", "limit", "whole number"},
		{"GET", "/groups?limit=0", "", "limit", "1 to 1000"},
		{"GET", "/audit?limit=99999999999999999999", "", "limit", "1 to 1000"},
		{"GET", "/schedules?limit=-1", "", "limit", "1 to 1000"},
		{"PUT", "/schedules/nightly", `{"spec":"1h","kind":"mail.v1","args":{},"args":{}}`, "name", "once"},
		{"POST", "/schedules", `{"name":"nightly","spec":"1h","kind":"mail.v1","from":"soon"}`, "from", "time"},
		{"GET", "/jobs?since=yesterday", "", "since", "time"},
		{"GET", "/jobs?a=%zz", "", "query", "well formed"},
		{"GET", "/jobs/x", "", "id", "UUID"},
		{"GET", "/dead?status=gone", "", "status", "resolved"},
		{"GET", "/dead?regression=perhaps", "", "regression", "true or false"},
		{"POST", "/jobs", `{"kind":"a","args":{},"knid":1}`, "name", "not known"},
		{"POST", "/jobs", `{"Kind":"a","args":{}}`, "name", "not known"},
		{"POST", "/jobs", `{"kind":"a","kind":"b","args":{}}`, "name", "once"},
		{"POST", "/jobs", `{"kind":7,"args":{}}`, "kind", "a string"},
		{"POST", "/jobs", `{"kind":null,"args":{}}`, "kind", "a string"},
		{"POST", "/jobs", `{"kind":"a"}`, "args", "valid JSON"},
		{"POST", "/jobs", `{"kind":"a","args":{},"tags":"x"}`, "tags", "a list"},
		{"POST", "/jobs", `{"kind":"a","args":{},"tags":["x",7]}`, "tags[1]", "a string"},
		{"POST", "/jobs", `{"kind":"a","args":{},"unique":[]}`, "unique", "an object"},
		{"POST", "/jobs", `{"kind":"a","args":{},"unique":{"key":"k","scope":"waiting","perod":1}}`, "name", "not known"},
		{"POST", "/jobs", `{"kind":"a","args":{},"max_tries":1.5}`, "max_tries", "whole number"},
		{"POST", "/jobs", `{"kind":"a","args":{},"run_at":"soon"}`, "run_at", "time"},
		{"POST", "/jobs", `{"kind":"a","args":{},"envelope_base64":"?"}`, "envelope_base64", "base64"},
		{"POST", "/jobs", `{"kind":"a","args":{},"id":"x"}`, "id", "UUID"},
		{"POST", "/jobs", `[]`, "body", "an object"},
		{"POST", "/jobs", `{"kind":`, "body", "one JSON object"},
		{"POST", "/jobs", `{} {}`, "body", "one JSON object"},
		{"POST", "/jobs", "{\"kind\":\"a\",\"args\":\"\xff\"}", "args", "UTF-8"},
		{"POST", "/jobs", `{"kind":"a\ud83d","args":{}}`, "kind", "Unicode"},
		{"POST", "/jobs", `{"kind":"a","args":{},"tags":["x","\ude00\ud83d"]}`, "tags[1]", "Unicode"},
		{"POST", "/jobs", `{"kind":"a","args":{},"correlation_id":"\ud83dx"}`, "correlation_id", "Unicode"},
		{"POST", "/queues/q/clear", `{"reason":"\udc00"}`, "reason", "Unicode"},
		{"POST", "/queues/q/clear", "{\"reason\":\"\xff\"}", "reason", "UTF-8"},
		{"POST", "/queues/%ff/clear", `{}`, "queue", "UTF-8"},
		{"GET", "/audit?who=%ff", "", "who", "UTF-8"},
		{"PUT", "/queues/q/pause", `{"paused":true,"until":"10000-01-01T00:00:00Z"}`, "until", "time"},
		{"POST", "/jobs", `{"kind":"a","args":{},"run_at":"10000-01-01T00:00:00Z"}`, "run_at", "time"},
		{"POST", "/jobs", `{"kind":"a","args":{},"delay_ms":9223372036854775807}`, "delay", "10 years"},
		{"POST", "/dead/redrive", `{"ids":[]}`, "ids", "at least 1"},
		{"POST", "/dead/redrive", `{"ids":[` + strings.TrimSuffix(strings.Repeat(`"`+pawl.NewID().String()+`",`, 1001), ",") + `]}`, "ids", "at most 1000"},
		{"POST", "/dead/prune", `{"filter":{"stauts":["dead"]}}`, "name", "not known"},
	} {
		p := w.refused(w.ask(api.RoleAdmin, c.method, "/api/v1"+c.path, c.body), http.StatusBadRequest, "invalid")
		if p["field"] != c.field || !strings.Contains(fmt.Sprint(p["rule"]), c.rule) {
			t.Errorf("%s %s %.80s: field %v, rule %v", c.method, c.path, c.body, p["field"], p["rule"])
		}
	}
	p := w.refused(w.ask(api.RoleAdmin, "POST", "/api/v1/jobs", `{"jobs":[{"kind":"a","args":{}},{"kind":"a","args":{},"tgas":[]}]}`), 400, "invalid")
	if p["value"] != "jobs[1].tgas" {
		t.Errorf("the place is %v", p["value"])
	}
	w.refused(w.ask(api.RoleAdmin, "POST", "/api/v1/jobs", strings.Repeat(" ", 100_001)), http.StatusRequestEntityTooLarge, "too_large")
	w.refused(w.ask(api.RoleAdmin, "POST", "/api/v1/jobs", `{"kind":"a","args":{}}`, "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, "media_type")
	if jobs, err := w.store.Jobs(t.Context(), pawl.JobFilter{}, pawl.Page{}); err != nil || len(jobs.Jobs) > 0 {
		t.Errorf("%d jobs were stored, %v", len(jobs.Jobs), err)
	}
}

// A pair of halves is a character, and an escaped backslash begins no escape.
func TestEscapedCharactersAreTakenWhole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	answer := w.ask(api.RoleEnqueue, http.MethodPost, "/api/v1/jobs", `{"kind":"a\ud83d\ude00\\ud800\ufffd","args":{}}`)
	if kind := answer.object(t)["kind"]; kind != "a😀\\ud800\ufffd" {
		t.Errorf("the kind is %q", kind)
	}
}

// A body that breaks off is the client's doing: the server has not failed, and its log is not the client's to fill.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for how, body := range map[string]string{
		"Content-Length: 500":        `{"kind":"a",`,
		"Transfer-Encoding: chunked": "zz\r\n",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s",
			w.tokens[api.RoleEnqueue], how, body)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if p := w.refused(reply{response, answer}, http.StatusBadRequest, "invalid"); p["field"] != "body" {
			t.Errorf("%s: the field is %v", how, p["field"])
		}
	}
	if log := w.log.String(); log != "" {
		t.Errorf("the log says %s", log)
	}
}
