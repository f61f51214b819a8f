package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
)

// What a role may do is in the description, and is what it may do.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := pawl.NewID().String()
	rank := map[api.Role]int{api.RoleViewer: 1, api.RoleOperator: 2, api.RoleAdmin: 3}
	asked := 0
	for path, methods := range w.description().Paths {
		for method, op := range methods {
			_, needs, _ := strings.Cut(op.Description, "Role: ")
			needs, orEnqueue := strings.CutPrefix(strings.TrimSuffix(needs, "."), "enqueue or ")
			at := "/api/v1" + strings.NewReplacer("{id}", id, "{session}", "4711").Replace(path)
			for _, role := range roles {
				may := needs == "any" || orEnqueue && role == api.RoleEnqueue || rank[role] >= rank[api.Role(needs)] && rank[role] > 0
				answer := w.ask(role, strings.ToUpper(method), at, "")
				if denied := answer.StatusCode == http.StatusForbidden; denied == may {
					t.Errorf("%s, which needs %s: %s is answered %s", op.OperationID, needs, role, answer.Status)
				}
				asked++
			}
		}
	}
	if asked < 4*50 {
		t.Errorf("%d asked", asked)
	}
	for name, needs := range map[string]string{
		"Enqueue": "enqueue or operator", "About": "any", "Letters": "viewer", "Redrive": "operator", "PauseQueue": "operator", "SwitchKind": "admin", "ResetKind": "admin", "PruneLetters": "admin",
		"EraseArgs": "admin", "MoveLetters": "admin", "RecordDeaths": "admin", "ClaimAlerts": "admin",
		"OutboxMessages": "viewer", "PauseOutbox": "operator", "RetryMessages": "operator", "PurgeOutbox": "admin",
	} {
		if op := w.description().operations()[name]; !strings.HasSuffix(op.Description, "Role: "+needs+".") {
			t.Errorf("%s: %s", name, op.Description)
		}
	}
	// An operator may enqueue, a viewer may not.
	body := `{"kind":"a","args":{}}`
	w.refused(w.ask(api.RoleViewer, "POST", "/api/v1/jobs", body), http.StatusForbidden, "forbidden")
	for _, role := range []api.Role{api.RoleEnqueue, api.RoleOperator, api.RoleAdmin} {
		if answer := w.ask(role, "POST", "/api/v1/jobs", body); answer.StatusCode != http.StatusCreated {
			t.Errorf("%s: %s", role, answer.Status)
		}
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	good := w.tokens[api.RoleAdmin]
	for i, header := range []string{"", "Bearer", "Bearer ", "Bearer pawl_wrong-secret", "Basic " + good, "Bearer " + good + "x", good} {
		answer := w.ask("", http.MethodGet, "/api/v1/dead", "", "Authorization", header)
		w.refused(answer, http.StatusUnauthorized, "unauthorized")
		if answer.Header.Get("WWW-Authenticate") != `Bearer realm="pawl"` {
			t.Errorf("%d: headers %v", i, answer.Header)
		}
	}
	for _, path := range []string{"/api/v1/nothing", "/api/v1/openapi.json", "/"} { // what there is, is told to nobody
		w.refused(w.ask("", http.MethodGet, path, ""), http.StatusUnauthorized, "unauthorized")
	}
	for range 20 {
		answer := w.ask("", http.MethodGet, "/api/v1/dead", "", "Authorization", "Bearer pawl_wrong-secret")
		if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") == "" {
			t.Error("it is not said for how long")
		}
	}
	w.refused(w.ask("", http.MethodGet, "/api/v1/dead", ""), http.StatusTooManyRequests, "throttled")
	if answer := w.ask(api.RoleViewer, http.MethodGet, "/api/v1/dead", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("who has a token is kept out by one who has none: %s", answer.Status)
	}
	log := w.log.String()
	if strings.Contains(log, "wrong-secret") || strings.Contains(log, good) {
		t.Error("the log shows what was tried")
	}
	if n := strings.Count(log, "no valid token"); n != 10 || strings.Count(log, "too many requests") != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
}

func TestNoTokensNoAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, one, err := api.NewToken("one", api.RoleViewer)
	if err != nil {
		t.Fatal(err)
	}
	twin := one
	twin.Name = "two"
	for name, config := range map[string]api.Config{
		"none":             {},
		"no name":          {Tokens: []api.Token{{Role: api.RoleViewer}}},
		"no role":          {Tokens: []api.Token{{Name: "a"}}},
		"odd role":         {Tokens: []api.Token{{Name: "a", Role: "root"}}},
		"slash":            {Tokens: []api.Token{{Name: "a/b", Role: api.RoleViewer}}},
		"one name twice":   {Tokens: []api.Token{one, one}},
		"one secret twice": {Tokens: []api.Token{one, twin}},
		"negative":         {Tokens: []api.Token{one}, MaxBody: -1},
	} {
		if _, err := api.New(w.store, config); err == nil {
			t.Errorf("%s: there is an API", name)
		}
	}
	if _, err := api.New(nil, api.Config{Tokens: []api.Token{one}}); err == nil {
		t.Error("there is an API of no store")
	}
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	_, ada, err := api.NewToken("ada", api.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	_, ci, err := api.NewToken("ci", api.RoleEnqueue)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		ada.String() + "\n" + ci.String(),
		" " + ada.String() + " , " + ci.String() + ",\n",
		"# who may come in\n\n" + ada.String() + " # till 2030\r\n" + ci.String() + "\n",
	} {
		tokens, err := api.ParseTokens(text)
		if err != nil || len(tokens) != 2 || tokens[0] != ada || tokens[1] != ci {
			t.Errorf("%q: %v, %v", text, tokens, err)
		}
	}
	hash := strings.Repeat("ab", 32)
	for _, text := range []string{
		"ada", "ada:admin", "ada:admin:", "ada:admin:pawl_s3cret", "ada:root:" + hash, ":admin:" + hash, "a b:admin:" + hash,
		"ada:admin:" + hash[2:], "ada:admin:" + hash + "00", "ada:admin:" + hash + "\nada:viewer:" + hash,
	} {
		tokens, err := api.ParseTokens(text)
		if err == nil || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%q: %v, %v", text, tokens, err)
		}
	}
	if tokens, err := api.ParseTokens(" \n# none\n"); err != nil || tokens != nil {
		t.Errorf("nothing: %v, %v", tokens, err)
	}
}

// Who acts is the token, and the person that it says.
func TestWhoActs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ids := w.letters(2)
	w.ask(api.RoleOperator, "POST", "/api/v1/dead/resolve", `{"ids":["`+ids[0].String()+`"],"reason":"by hand"}`)
	w.ask(api.RoleOperator, "POST", "/api/v1/dead/resolve", `{"ids":["`+ids[1].String()+`"],"by":"Ada Person"}`)
	for i, who := range []string{"the-operator", "the-operator/Ada Person"} {
		page, err := w.store.Audit(t.Context(), pawl.AuditFilter{Subject: ids[i].String()}, pawl.Page{})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Who != who || page.Entries[0].Door != "api" {
			t.Errorf("%+v, %v", page.Entries, err)
		}
	}
	p := w.refused(w.ask(api.RoleOperator, "POST", "/api/v1/queues/a/clear", `{"by":"`+strings.Repeat("x", 300)+`"}`), http.StatusBadRequest, "invalid")
	if p["field"] != "who" {
		t.Errorf("refused for %v", p["field"])
	}
}

// One who only looks sees no args and no messages where they are hidden, by no way.
func TestHidden(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	w := setup(t, func(c *api.Config) { c.HideFromViewers = true }, withOutbox(shop))
	ids := w.letters(2, func(l *pawl.DeadLetter) { l.Note = "" })
	session, err := w.store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Sinks: []string{"mail"}, Kinds: []string{"mail.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	more := w.letters(1)
	tasks, err := w.store.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 1})
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	if _, err := w.store.SettleAlerts(t.Context(), []pawl.AlertResult{{Row: tasks[0].Row, Token: tasks[0].Token, Error: "550 ada@example.org"}}); err != nil {
		t.Fatal(err)
	}
	batch := w.ask(api.RoleOperator, "POST", "/api/v1/batches", `{"kind":"b","args":{},"members":[{"kind":"a","args":{"to":"ada@example.org"}}]}`).object(t)
	job := batch["members"].([]any)[0].(map[string]any)["id"]
	claimed, err := w.store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{"a"}, Max: 1})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatal(claimed, err)
	}
	held := claimed.Jobs[0].Reservation
	if _, err := w.store.Beat(t.Context(), session, pawl.Beat{
		Held: []pawl.Reservation{held}, Progress: []pawl.Progress{{Reservation: held, Percent: 50, Note: "writes to ada@example.org"}},
	}); err != nil {
		t.Fatal(err)
	}
	w.ask(api.RoleOperator, "POST", "/api/v1/dead/note", `{"ids":["`+ids[0].String()+`"],"note":"asked ada@example.org"}`)
	args := `{"to":"ada@example.org"}`
	w.ask(api.RoleOperator, "POST", "/api/v1/schedules", `{"name":"nightly","spec":"1h","kind":"mail.v1","args":`+args+`}`)
	secret := base64.StdEncoding.EncodeToString([]byte(args))
	for _, path := range []string{
		"/schedules", "/schedules/nightly", "/audit?action=add",
		"/dead", "/dead/" + ids[0].String() + "?payload=true", "/dead/" + ids[1].String(), "/groups", "/jobs", fmt.Sprintf("/jobs/%s?payload=true", job),
		"/outboxes", "/outboxes/shop/messages", "/outboxes/shop/messages/" + shop.ids[1].String() + "?payload=true",
		"/batches", fmt.Sprintf("/batches/%s/members", batch["id"]),
		"/status", "/sinks", "/dead/" + more[0].String() + "/alerts", "/audit",
	} {
		answer := w.ask(api.RoleViewer, "GET", "/api/v1"+path, "")
		if answer.StatusCode != http.StatusOK || strings.Contains(string(answer.body), "example.org") || strings.Contains(string(answer.body), "envelope_base64") || strings.Contains(string(answer.body), secret) {
			t.Errorf("GET %s shows to a viewer: %s", path, answer.body)
		}
		if whole := w.ask(api.RoleOperator, "GET", "/api/v1"+path, ""); whole.StatusCode != http.StatusOK || strings.Contains(string(whole.body), "(hidden)") {
			t.Errorf("GET %s hides from an operator: %s", path, whole.body)
		}
	}
	for _, path := range []string{"/dead?error=ada", "/dead/count?error=ada", "/groups?error=ada"} {
		w.refused(w.ask(api.RoleViewer, "GET", "/api/v1"+path, ""), http.StatusForbidden, "forbidden")
	}
}
