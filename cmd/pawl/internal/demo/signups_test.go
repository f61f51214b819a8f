package demo

import (
	"errors"
	"strings"
	"testing"
)

func TestSampleHasWhatTheDemoShows(t *testing.T) {
	t.Parallel()
	rows, err := parseSignUps(sample)
	if err != nil {
		t.Fatal(err)
	}
	unknown, odd := 0, 0
	for _, row := range rows {
		if !isKnown(row.Role) {
			unknown++
		}
		if isOdd(row.Name) {
			odd++
		}
	}
	if len(rows) != 200 || unknown != 5 || odd < 15 {
		t.Errorf("%d rows, %d unknown roles, %d odd names", len(rows), unknown, odd)
	}
}

func isOdd(name string) bool {
	return strings.ContainsAny(name, `",<=;`) || len(name) != len([]rune(name))
}

func TestSignUpsAreReadAsGiven(t *testing.T) {
	t.Parallel()
	rows, err := parseSignUps([]byte("\xef\xbb\xbfRole,office,name,ID,email\r\nadmin,Oslo,\"Ann \"\"B\"\", C\",7,a@b.example\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (signUp{"7", "a@b.example", `Ann "B", C`, "admin"}); len(rows) != 1 || rows[0] != want {
		t.Errorf("got %+v, want %+v", rows, want)
	}
}

func TestMalformedSignUpsNameLineAndRule(t *testing.T) {
	t.Parallel()
	const head = "id,email,name,role\n"
	for name, c := range map[string]struct {
		text string
		line int
		rule string
	}{
		"empty":            {"", 1, "the input is empty"},
		"header only":      {head, 2, "must be a sign-up"},
		"column missing":   {"id,email,name\n1,a@b.example,A\n", 1, `column "role"`},
		"column twice":     {"id,email,name,role,ID\n", 1, `"id" must be named once`},
		"too few fields":   {head + "1,a@b.example,A,admin\n2,b@b.example,B\n", 3, "as many fields as the header"},
		"too many fields":  {head + "1,a@b.example,A, Jr.,admin\n", 2, "as many fields as the header"},
		"open quote":       {head + "1,a@b.example,A,admin\n2,b@b.example,\"B,admin\n", 3, "must end with a quote"},
		"bare quote":       {head + "1,a@b.example,A \"B\",admin\n", 2, "must be quoted"},
		"no id":            {head + " ,a@b.example,A,admin\n", 2, `id "" must not be empty`},
		"id twice":         {head + "1,a@b.example,A,admin\n2,b@b.example,B,admin\n1,c@b.example,C,admin\n", 4, `id "1" must be unique: line 2`},
		"id too long":      {head + strings.Repeat("x", 65) + ",a@b.example,A,admin\n", 2, "at most 64 bytes"},
		"no address":       {head + "1,bob@@x,A,admin\n", 2, `email "bob@@x" must be a bare mail address`},
		"named address":    {head + "1,Bob <bob@x.example>,A,admin\n", 2, "must be a bare mail address"},
		"address not ours": {head + "1,bøb@x.example,A,admin\n", 2, "in ASCII"},
		"two-line name":    {head + "1,a@b.example,\"A\nBcc: all@x.example\",admin\n", 2, "no control characters"},
		"no role":          {head + "1,a@b.example,A,\n", 2, `role "" must not be empty`},
		"after long row":   {head + "1,a@b.example,A,\"admin\"\n2,b@b.example,\"x\ny\",admin\n", 3, "no control characters"},
		"not UTF-8":        {head + "1,a@b.example,A,admin\n2,b@b.example,\xff,admin\n", 3, "must be UTF-8"},
	} {
		rows, err := parseSignUps([]byte(c.text))
		var broken *lineError
		if !errors.As(err, &broken) || broken.line != c.line || !strings.Contains(broken.rule, c.rule) || rows != nil {
			t.Errorf("%s: got %v (%d rows), want line %d: … %s …", name, err, len(rows), c.line, c.rule)
		}
	}
}

func FuzzSignUps(f *testing.F) {
	f.Add(sample)
	f.Add([]byte("id,email,name,role\n1,a@b.example,A,admin\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := parseSignUps(text)
		var broken *lineError
		switch {
		case err != nil && !errors.As(err, &broken):
			t.Errorf("an error without a line: %v", err)
		case err != nil && broken.line < 1:
			t.Errorf("line %d", broken.line)
		case err == nil && len(rows) == 0:
			t.Error("no rows and no error")
		}
		for _, row := range rows {
			if row.ID == "" || strings.ContainsAny(row.Name+row.Email, "\r\n") {
				t.Errorf("took %+v", row)
			}
		}
	})
}
