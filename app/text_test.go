package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want string }{
		{"plain text, ünïcödé, 漢字, 🙂", "plain text, ünïcödé, 漢字, 🙂"},
		{"a\tb\nc\rd", `a\tb\nc\rd`},
		{"\x00\x07\x1b[2J\x7f", `\x00\x07\x1b[2J\x7f`},
		{"\u009b31m", `\u009b31m`},
		{"\u202egnp.exe\u2066\u200b", `\u202egnp.exe\u2066\u200b`},
		{"\u2028\u2029\ufeff", `\u2028\u2029\ufeff`},
		{"\U000e0041", `\U000e0041`},
		{"a\xff\xc3", `a\xff\xc3`},
		{"\ufffd", "\ufffd"},
	} {
		if got := escape(test.in); got != test.want {
			t.Errorf("escape(%q) = %q, want %q", test.in, got, test.want)
		}
	}
	if got := escapeLines("a\nb\r\x1b"); got != "a\nb\\r\\x1b" {
		t.Errorf("escapeLines: %q", got)
	}
}

// hidden is what must never reach a terminal.
func hidden(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }

// Whatever the text, what is printed of it is visible; and as JSON it comes back as it was.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"a", "\x1b]0;x\x07", "\u202e\u009b", "\xff\xfe", "\U000e0041\U0010ffff", "\"\\/\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if out := escape(in); strings.ContainsFunc(out, hidden) || strings.Contains(out, "\n") || !utf8.ValidString(out) {
			t.Errorf("escape(%q) = %q", in, out)
		}
		encoded, err := encodeJSON(map[string]text{"v": text(in)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(encoded), hidden) || strings.Count(string(encoded), "\n") != 1 {
			t.Errorf("JSON of %q is %q", in, encoded)
		}
		var back map[string]string
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(in) && back["v"] != in {
			t.Errorf("%q came back as %q", in, back["v"])
		}
	})
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
		"0s": 0, "-1s": -time.Second,
	} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "-1d", "1d-1h", "1.5d", "soon", "99999999999d", "106752d", "106751d24h"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("parseSpan(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-01-31": "2026-01-31T00:00:00Z", "2026-01-31T12:00": "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00+01:00": "2026-01-31T11:00:00Z", "2026-01-31T12:00:05": "2026-01-31T12:00:05Z",
	} {
		if got, err := parseTime(text); err != nil || moment(got) != want {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "31.1.2026", "2026-02-30", "noon"} {
		if got, err := parsePast(text); err == nil {
			t.Errorf("parsePast(%q) = %v, want an error", text, got)
		}
	}
	if got, err := parsePast("1h"); err != nil || time.Since(got) < time.Hour || time.Since(got) > 2*time.Hour {
		t.Errorf("parsePast(1h) = %v, %v", got, err)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"sqlite:/var/lib/pawl.db": "sqlite:/var/lib/pawl.db", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestCalledAs(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"pawl": "pawl", "./bin/pawl": "./bin/pawl", "/opt/my tools/pawl": "'/opt/my tools/pawl'",
		"/tmp/go-build123/b001/exe/pawl": "pawl",
	} {
		if got := calledAs(typed, "pawl"); got != want {
			t.Errorf("calledAs(%q) = %s, want %s", typed, got, want)
		}
	}
}
