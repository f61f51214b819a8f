package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl/app/internal/config"
)

// file writes one into a folder of the test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, from config.Sources) *config.Settings {
	t.Helper()
	from.BuiltIn = true
	s, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value is what a setting is and where it comes from.
func value(t *testing.T, s *config.Settings, key string) string {
	t.Helper()
	for _, e := range s.Entries() {
		if e.Key == key {
			return e.Value + " from " + filepath.Base(e.From)
		}
	}
	return "not there"
}

// golden compares with a file, or with UPDATE_GOLDEN writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := load(t, config.Sources{})
	for key, want := range map[string]string{
		"connection": "default from default", "connections.default.url": "sqlite:pawl.db from default", "listen": "127.0.0.1:7295 from default",
		"drain.handler": "1m45s from default", "drain.server": "2m from default", "servers.io.queues": "[1-critical, 2-default] from default",
		"servers.io.workers": "20 from default", "http_request.allow": "[*] from default", "log.level": "info from default",
	} {
		if got := value(t, s, key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// A flag wins over the environment, that over the file, that over what the program brings, and that over the default.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	layers := config.Sources{
		Program: []byte("listen: 127.0.0.1:1\n"), File: file(t, "pawl.yaml", "listen: 127.0.0.1:2\n"),
		Environ: []string{"PAWL_LISTEN=127.0.0.1:3"}, Flags: []config.Flag{{Name: "--listen", Key: "listen", Value: "127.0.0.1:4"}},
	}
	for _, want := range []string{
		"127.0.0.1:4 from --listen", "127.0.0.1:3 from PAWL_LISTEN", "127.0.0.1:2 from pawl.yaml:1", "127.0.0.1:1 from program:1", "127.0.0.1:7295 from default",
	} {
		if got := value(t, load(t, layers), "listen"); got != want {
			t.Errorf("listen is %s, want %s", got, want)
		}
		switch {
		case layers.Flags != nil:
			layers.Flags = nil
		case layers.Environ != nil:
			layers.Environ = nil
		case layers.File != "":
			layers.File = ""
		default:
			layers.Program = nil
		}
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	s := load(t, config.Sources{File: "testdata/whole.yaml", Environ: []string{
		"PAWL_CONNECTIONS_REPORTS_PASSWORD=under wraps", "PAWL_SINKS_PAGER_URL=https://pager.example.com/x",
		"PAWL_POLICY_BACKOFF=1s, 2m,1d", "PAWL_SERVERS_FAST_LANE_WORKERS=3", "HOME=/root", "PAWL_PORT_7295_TCP_ADDR=10.0.0.1", "PAWL_SERVICE_HOST=10.0.0.1", "PAWL_LOG_LEVEL=",
	}})
	var got strings.Builder
	for _, e := range s.Entries() {
		if e.From != "default" {
			got.WriteString(e.Key + " = " + e.Value + "\n")
		}
	}
	golden(t, "testdata/whole.golden", got.String())
	target, err := s.Connections["reports"].Target()
	if err != nil || target.At != "postgres://pawl:under%20wraps@db/reports" {
		t.Errorf("reports is at %v, %v", target.At, err)
	}
	if strings.Contains(got.String(), "wraps") || strings.Contains(got.String(), "hush") {
		t.Error("a secret is shown")
	}
	if secret := s.Sinks["chat"].Secret; secret != "hush, hush, sweet" {
		t.Errorf("the secret of the file is %q", string(secret))
	}
	if _, err := s.Sink("email"); err != nil {
		t.Error(err)
	}
}

// Everything that is wrong is said at once, each with its line, and no secret with it.
func TestProblems(t *testing.T) {
	t.Parallel()
	path := "testdata/wrong.yaml"
	_, err := config.Load(config.Sources{File: path, BuiltIn: true, Environ: []string{
		"PAWL_LISTN=x", "PAWL_SINKS_CHAT_URRL=https://hush", "PAWL_DRAIN_HOST=soon", "PAWL_NOTHING_LIKE_IT=1", "PAWL_SINKS_CHAT_SECRET=hush",
	}})
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error %v", err)
	}
	golden(t, "testdata/wrong.golden", err.Error()+"\n")
	if strings.Contains(err.Error(), "hush") {
		t.Error("a secret is shown")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ yaml, want string }{
		"no YAML":              {"listen: [1\n", "pawl.yaml:1: it is no YAML"},
		"a tab":                {"host:\n\tname: x\n", "pawl.yaml:2: it is no YAML"},
		"deep brackets":        {"a: " + strings.Repeat("[", 1000), "nested too deeply"},
		"deep braces":          {"a: " + strings.Repeat("{b: ", 1000), "nested too deeply"},
		"deep items":           {strings.Repeat("- ", 1000) + "a", "nested too deeply"},
		"a list":               {"- listen\n", "must have keys of its own"},
		"a word":               {"listen\n", "must have keys of its own"},
		"two documents":        {"---\nlisten: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", "pawl.yaml:4: a second document"},
		"a key twice":          {"listen: a\nlisten: b\n", "pawl.yaml:2: it is no YAML: mapping key"},
		"an anchor":            {"listen: &x 127.0.0.1:1\n", "listen: anchors, aliases and tags are not taken"},
		"a merge":              {"host:\n  <<: {name: x}\n", "pawl.yaml:2: a key must be a plain name"},
		"a tag":                {"listen: !!str x\n", "pawl.yaml:1: listen: anchors, aliases and tags"},
		"no value":             {"listen:\n", "pawl.yaml:1: listen: it has no value"},
		"keys for a value":     {"listen:\n  host: x\n", "listen: must be a value"},
		"a value for keys":     {"drain: 10s\n", "pawl.yaml:1: drain: must have keys of its own"},
		"a list for a value":   {"listen: [a, b]\n", "listen: must be one value"},
		"a number for a truth": {"http_request:\n  allow_http: 1\n", `pawl.yaml:2: http_request.allow_http: "1" is no true or false`},
		"a bad entry name":     {"servers:\n  a.b: {workers: 1}\n", `servers: the name "a.b" must have`},
		"an inner key unknown": {"servers:\n  io:\n    wokers: 1\n", "pawl.yaml:3: unknown key servers.io.wokers: did you mean workers?"},
		"a secret inline":      {"sinks:\n  chat:\n    url: https://hush\n", "pawl.yaml:3: sinks.chat.url: a secret must not stand in the configuration: name its file with url_file, or set PAWL_SINKS_CHAT_URL"},
		"a password inline":    {"connections:\n  default: postgres://u:hush@db/x\n", "pawl.yaml:2: connections.default.url: a password must not stand in the configuration"},
		"a password in query":  {"connections:\n  default: postgres://u@db/x?password=hush\n", "a password must not stand"},
		"no such connection":   {"connection: reports\nconnections:\n  default: sqlite:x.db\n", `pawl.yaml:1: connection: there is no connection "reports"`},
		"no such engine":       {"connections:\n  default: mongo://x\n", `connections.default.url: stores of the kind "mongo"`},
		"dead letters nowhere": {"dead_letters: morgue\n", `dead_letters: there is no connection "morgue"`},
		"an outbox nowhere":    {"outboxes:\n  shop: {table: box}\n", `pawl.yaml:2: outboxes.shop.connection: there is no connection "shop"`},
		"an outbox far away":   {"connections: {shop: 'https://x'}\noutboxes:\n  shop: {connection: shop}\n", "pawl.yaml:3: outboxes.shop.connection: an outbox is in a database"},
		"a schema in a file":   {"connections: {shop: 'sqlite:x.db'}\noutboxes:\n  shop: {schema: s}\n", "pawl.yaml:3: outboxes.shop.schema: "},
		"a long table":         {"connections: {shop: 'sqlite:x.db'}\noutboxes:\n  shop: {table: " + strings.Repeat("x", 49) + "}\n", "pawl.yaml:3: outboxes.shop.table: "},
		"a busy outbox":        {"connections: {shop: 'sqlite:x.db'}\noutboxes:\n  shop: {poll: 1ms}\n", "pawl.yaml:3: outboxes.shop.poll: must be at least 10ms"},
		"an outbox twice":      {"connections: {shop: 'sqlite:x.db'}\noutboxes:\n  a: {connection: shop}\n  shop: {keep: 1h}\n", "pawl.yaml:4: outboxes.shop: it is the same as outboxes.a"},
		"an outbox key":        {"connections: {shop: 'sqlite:x.db'}\noutboxes:\n  shop: {kep: 1h}\n", "did you mean keep?"},
		"an empty entry":       {"servers:\n  io: {}\n", "pawl.yaml:2: servers.io: it has no keys"},
		"an empty outbox":      {"outboxes:\n  shop: {}\n", `pawl.yaml:2: outboxes.shop.connection: there is no connection "shop"`},
		"an outbox by a name":  {"outboxes:\n  shop: nowhere\n", `pawl.yaml:2: outboxes.shop.connection: there is no connection "nowhere"`},
		"a ladder":             {"drain: {handler: 3m, server: 2m}\n", `pawl.yaml:1: drain.handler: "3m0s" must be smaller than drain.server`},
		"weights":              {"servers:\n  io: {queues: [a], workers: 1, weights: {b: 1}}\n", "servers.io.weights"},
		"no queues":            {"servers:\n  io: {workers: 1}\n", "pawl.yaml:2: servers.io.queues"},
		"a policy":             {"policy: {max_tries: -1}\n", "pawl.yaml:1: policy.max_tries: "},
		"a redrive rule":       {"policy: {redrive: maybe}\n", `"maybe" is not any`},
		"a sink of no type":    {"sinks:\n  chat: {timeout: 5s}\n", "pawl.yaml:2: sinks.chat: "},
		"the log's name":       {"sinks:\n  log: {addr: 'x:25'}\n", "pawl.yaml:2: sinks.log: "},
		"a mixed sink":         {"sinks:\n  chat: {addr: 'x:25', from: a@x.de, to: a@x.de, allow_http: true}\n", "sinks.chat.allow_http: "},
		"a pattern":            {"http_request: {allow: ['https://x']}\n", "http_request.allow: "},
		"a network":            {"http_request: {allow_networks: [10.1.2.3/8]}\n", "http_request.allow_networks: "},
		"a relative command":   {"command_run: {commands: {a: {run: [ls]}}}\n", "command_run.commands.a.run: "},
		"a level":              {"log: {level: loud}\n", `log.level: "loud" is not`},
		"a level with more":    {"log: {level: info+2}\n", `log.level: "info+2" is not`},
		"a missing secret":     {"sinks:\n  chat: {url_file: nowhere}\n", "sinks.chat.url_file: "},
		"a size":               {"http_request: {max_response: 2GiB}\n", "is no size"},
		"token":                {"api: {tokens: {ci: {role: root, hash: abc}}}\n", `api.tokens.ci.role: "root"`},
		"no UTF-8":             {"host: {name: \"a\xff\"}\n", "pawl.yaml:1: it is no valid UTF-8"},
		"a NUL":                {"listen: \"a\\0b\"\n", "listen: "},
	} {
		_, err := config.Load(config.Sources{File: file(t, "pawl.yaml", row.yaml), BuiltIn: true})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %s", name, err, row.want)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: a secret is shown: %v", name, err)
		}
	}
}

// Editors on Windows begin a file with a byte order mark.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	settings, err := config.Load(config.Sources{File: file(t, "pawl.yaml", "\ufefflisten: 127.0.0.1:1\n"), BuiltIn: true})
	if err != nil || settings.Listen != "127.0.0.1:1" {
		t.Errorf("listen is %q, %v", settings.Listen, err)
	}
}

// The connection that is picked has the URL that is closest, and one that a file states by name is not mistaken for another.
func TestStore(t *testing.T) {
	t.Parallel()
	path := file(t, "pawl.yaml", "connections:\n  default: sqlite:a.db\n  reports: sqlite:b.db\n")
	store := func(url string) config.Flag { return config.Flag{Name: "--store", Key: config.StoreKey, Value: url} }
	pick := config.Flag{Name: "--connection", Key: "connection", Value: "reports"}
	for name, row := range map[string]struct {
		from config.Sources
		want string
	}{
		"nothing":                      {config.Sources{}, "sqlite:pawl.db"},
		"the environment":              {config.Sources{Environ: []string{"PAWL_STORE=sqlite:e.db"}}, "sqlite:e.db"},
		"the flag":                     {config.Sources{Environ: []string{"PAWL_STORE=sqlite:e.db"}, Flags: []config.Flag{store("sqlite:f.db")}}, "sqlite:f.db"},
		"another name":                 {config.Sources{Flags: []config.Flag{pick}}, "sqlite:pawl.db"},
		"another name, environment":    {config.Sources{Environ: []string{"PAWL_STORE=sqlite:e.db"}, Flags: []config.Flag{pick}}, "sqlite:e.db"},
		"the file":                     {config.Sources{File: path}, "sqlite:a.db"},
		"the file, environment":        {config.Sources{File: path, Environ: []string{"PAWL_STORE=sqlite:e.db"}}, "sqlite:e.db"},
		"of the file by name":          {config.Sources{File: path, Environ: []string{"PAWL_STORE=sqlite:e.db"}, Flags: []config.Flag{pick}}, "sqlite:b.db"},
		"of the file by the variable":  {config.Sources{File: path, Environ: []string{"PAWL_CONNECTION=reports"}}, "sqlite:b.db"},
		"of the file, and yet another": {config.Sources{File: path, Flags: []config.Flag{pick, store("sqlite:f.db")}}, "sqlite:f.db"},
	} {
		s, err := config.Load(row.from)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Replace(s.Picked().URL, filepath.Dir(path)+"/", "", 1); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	before := "log: {level: info}\nsinks: {chat: {url_file: URL}}\nkinds: {off: [a.v1]}\n"
	for name, row := range map[string]struct{ after, want string }{
		"nothing":           {before, " / "},
		"a comment":         {"# so\n" + before, " / "},
		"the level":         {strings.Replace(before, "info", "debug", 1), "log / "},
		"the format":        {strings.Replace(before, "level: info", "format: json", 1), " / log"},
		"a kind":            {strings.Replace(before, "a.v1", "b.v1", 1), "kinds / "},
		"a sink's setting":  {strings.Replace(before, "{url_file: URL}", "{url_file: URL, timeout: 5s}", 1), "sinks / "},
		"a new sink":        {strings.Replace(before, "{chat:", "{more: {url_file: URL}, chat:", 1), " / sinks"},
		"where it listens":  {before + "listen: 127.0.0.1:1\nservers: {a: {queues: [x], workers: 1}}\n", " / listen, servers"},
		"an allowed target": {before + "http_request: {allow: [a.example.com]}\ndrain: {host: 10m}\n", "http_request / drain"},
		"a new command":     {before + "command_run: {commands: {a: {run: [/bin/true]}}}\n", "command_run / "},
	} {
		folder := t.TempDir()
		url := filepath.Join(folder, "url")
		if err := os.WriteFile(url, []byte("https://chat.example.com/hush\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		one := load(t, config.Sources{File: file(t, "a.yaml", strings.ReplaceAll(before, "URL", url))})
		two := load(t, config.Sources{File: file(t, "b.yaml", strings.ReplaceAll(row.after, "URL", url))})
		live, restart := one.Changes(two)
		if got := strings.Join(live, ", ") + " / " + strings.Join(restart, ", "); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
		if one.Stale() {
			t.Errorf("%s: it is stale at once", name)
		}
		if err := os.WriteFile(url, []byte("https://chat.example.com/new\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !one.Stale() {
			t.Errorf("%s: a new secret is not seen", name)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"missing": "nowhere.yaml", "a folder": t.TempDir(), "too large": file(t, "x.yaml", strings.Repeat("# x\n", 1<<18+1))} {
		_, err := config.Load(config.Sources{File: path})
		var problems config.Problems
		if err == nil || errors.As(err, &problems) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "-1s": -time.Second} {
		if got, err := config.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "d", "1d-1h", "106752d", "1e3s", "soon"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

// Whatever a file holds, it is taken or refused.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"", "listen: x", "a: [1", "sinks: {a: {url: x}}", "? x\n: y", "policy:\n  backoff: [1s, 2d]\n", "x: !!binary aGk=", "&a x", "servers: {a: {weights: {b: 1}}}"} {
		f.Add([]byte(seed))
	}
	whole, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := config.Load(config.Sources{Program: text, BuiltIn: true})
		if err == nil {
			s.Entries()
		}
	})
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://pawl@db/app":                                      "postgres://pawl@db/app",
		"postgres://pawl:secret@db/app":                               "postgres://pawl:xxxxx@db/app",
		"postgres://db/app?password=secret&user=pawl":                 "postgres://db/app?password=xxxxx&user=pawl",
		"postgresql://db/app?sslpassword=secret":                      "postgresql://db/app?sslpassword=xxxxx",
		"postgres://pawl:sec%ret@db/app":                              "postgres:…",
		"postgres://pawl:secret@db:port/app?host=/run&password=more1": "postgres:…",
	} {
		if got := config.Redacted(in); got != want {
			t.Errorf("redacted(%q) = %q, want %q", in, got, want)
		}
	}
}
