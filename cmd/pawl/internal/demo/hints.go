package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawljobs/pawl"
)

// hint is a command line to copy, and what it does.
type hint struct{ command, note string }

// hints say how to look at what died and how to run it again: one example of each group of failures that are alike.
// letters are as they are listed; load reads one whole.
func hints(program string, f folder, letters []pawl.DeadLetter, load func(pawl.ID) (pawl.DeadLetter, error)) ([]hint, error) {
	store := "--store " + shellWord("sqlite:"+f.store())
	groups, alike := groupOpen(letters)
	if len(groups) == 0 {
		return nil, nil
	}
	out := []hint{{program + " dead list " + store, "all that died"}}
	for _, example := range groups {
		letter, err := load(example.ID)
		if err != nil {
			return nil, fmt.Errorf("read dead letter: %w", err)
		}
		next := hintFor(program, store, letter)
		if n := alike[letter.Fingerprint]; n > 1 {
			next.note += fmt.Sprintf(" (one of %d)", n)
		}
		out = append(out, next)
	}
	return append(out, hint{
		program + " demo --resume --dir " + shellWord(string(f)), "run what was put back: nothing fails by plan any more",
	}), nil
}

// groupOpen returns the first open failure of each group, and how many each has.
func groupOpen(letters []pawl.DeadLetter) (examples []pawl.DeadLetter, alike map[string]int) {
	alike = map[string]int{}
	for _, letter := range letters {
		if letter.Status != pawl.StatusDead {
			continue
		}
		if alike[letter.Fingerprint] == 0 {
			examples = append(examples, letter)
		}
		alike[letter.Fingerprint]++
	}
	return examples, alike
}

func hintFor(program, store string, letter pawl.DeadLetter) hint {
	verb := func(verb, flags string) string {
		return strings.Join(strings.Fields(program+" dead "+verb+" "+letter.ID.String()), " ") + flags + " " + store
	}
	if letter.Class == pawl.DeathPoison {
		return hint{verb("discard", ""), "damaged envelope: a redrive is refused"}
	}
	if args, role, ok := mended(letter); ok {
		return hint{verb("redrive", " --args "+shellWord(args)), fmt.Sprintf("unknown role %q: needs another one", role)}
	}
	return hint{verb("redrive", ""), firstLine(letter.Message)}
}

// mended offers args with a role that is known, for a letter that died of an unknown one.
func mended(letter pawl.DeadLetter) (args, role string, ok bool) {
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	if err != nil || envelope.Kind != profilePost.Name() {
		return "", "", false
	}
	var was profileArgs
	if json.Unmarshal(envelope.Args, &was) != nil || isKnown(was.Role) {
		return "", "", false
	}
	better, err := json.Marshal(profileArgs{was.SignUp, "viewer"})
	return string(better), was.Role, err == nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > 70 {
		line = string(runes[:69]) + "…"
	}
	return line
}

// programName is what the user has to type to run this program again.
func programName() string {
	path, err := os.Executable()
	if err != nil {
		return "pawl"
	}
	if strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/pawl" // go run builds there, and removes it at the end
	}
	name := filepath.Base(path)
	if found, err := exec.LookPath(name); err == nil && found == path {
		return shellWord(name)
	}
	return shellWord(path)
}

// shellWord quotes text for a command line that is meant to be copied into a shell.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func printable(hints []hint) string {
	var b strings.Builder
	for _, h := range hints {
		fmt.Fprintf(&b, "\n  # %s\n  %s\n", h.note, h.command)
	}
	return b.String()
}
