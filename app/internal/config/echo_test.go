package config_test

import (
	"strings"
	"testing"

	"github.com/pawljobs/pawl/app/internal/config"
)

// Whatever is wrong, however long it is, what is said of it is a line that can be read.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 500_000)
	plain := strings.Repeat("a", 900_000)
	for name, text := range map[string]string{
		"key": long + ": 1\n", "key below": "log:\n  " + long + ": 1\n", "name": "sinks:\n  " + long + ": {addr: x}\n",
		"connection": "connection: " + plain + "\n", "duration": "drain: {handler: " + plain + "}\n", "durations": "policy: {backoff: [" + plain + "]}\n",
		"number": "servers: {io: {workers: " + plain + "}}\n", "weights": "servers: {io: {weights: {" + plain + ": x}}}\n", "switch": "policy: {starts_off: " + plain + "}\n",
		"fraction": "policy: {jitter: " + plain + "}\n", "size": "http_request: {max_response: " + plain + "}\n",
		"listen": "listen: " + plain + "\n", "level": "log: {level: " + plain + "}\n", "format": "log: {format: " + plain + "}\n",
		"letters": "dead_letters: " + plain + "\n", "rule": "policy: {redrive: " + plain + "}\n", "role": "api: {tokens: {a: {role: " + plain + "}}}\n",
		"outbox": "outboxes: {shop: " + plain + "}\n", "path": "connections: {default: " + plain + "}\n", "scheme": "connections: {default: '" + plain + ":x'}\n",
		"file": "sinks: {chat: {url_file: " + plain + "}}\n", "queue": "policy: {queue: " + plain + "}\n", "kind": "kinds: {off: [" + plain + "]}\n",
		"sink": "sinks: {mail: {addr: " + plain + ", from: a@b.c, to: [a@b.c]}}\n", "tls": "sinks: {mail: {addr: 'a:1', from: a@b.c, to: [a@b.c], tls: " + plain + "}}\n",
		"network": "http_request: {allow_networks: [" + plain + "]}\n", "table": "outboxes: {default: {table: " + plain + "}}\n",
		"program": "command_run: {commands: {a: {run: [" + plain + "]}}}\n", "no YAML": "a: " + plain + ": b\n", "not closed": "a: \"" + plain,
	} {
		_, err := config.Load(config.Sources{File: file(t, "pawl.yaml", text), BuiltIn: true})
		if err == nil {
			t.Errorf("%s: it was taken", name)
			continue
		}
		for line := range strings.Lines(err.Error()) {
			if len(line) > 1500 || !strings.Contains(line, "pawl.yaml") {
				t.Errorf("%s: %d bytes: %.300s", name, len(line), line)
			}
		}
	}
	for _, variable := range []string{"PAWL_" + strings.ToUpper(plain), "PAWL_DRAIN_HANDLER=" + plain, "PAWL_SERVERS_IO_WEIGHTS=" + plain} {
		_, err := config.Load(config.Sources{Environ: []string{variable + "=x"}})
		if err == nil || len(err.Error()) > 1500 {
			t.Errorf("%.40s: %.300v", variable, err)
		}
	}
}
