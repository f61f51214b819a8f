package app

import (
	"encoding"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parsedFlag is a flag whose text is read into any type.
type parsedFlag[T any] struct {
	target *T
	text   string
	kind   string
	parse  func(text string) (T, error)
}

func (f *parsedFlag[T]) String() string { return f.text }
func (f *parsedFlag[T]) Type() string   { return f.kind }

func (f *parsedFlag[T]) Set(text string) error {
	value, err := f.parse(text)
	if err != nil {
		return err
	}
	*f.target, f.text = value, text
	return nil
}

func addFlag[T any](flags *pflag.FlagSet, target *T, name, kind, help string, parse func(string) (T, error)) {
	flags.Var(&parsedFlag[T]{target: target, kind: kind, parse: parse}, name, help)
}

// parseSpan reads a duration such as 90s, 1h30m or 7d.
func parseSpan(text string) (time.Duration, error) { return config.ParseDuration(text) }

// parsePeriod is parseSpan for what has to last.
func parsePeriod(text string) (time.Duration, error) {
	span, err := parseSpan(text)
	if err == nil && span <= 0 {
		err = fmt.Errorf("%q must be greater than 0", text)
	}
	return span, err
}

func parseSpans(text string) ([]time.Duration, error) {
	var spans []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		span, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// parseTime reads a time: RFC 3339, or a day or minute in UTC.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 2026-01-31, 2026-01-31T12:00 (UTC) or 2026-01-31T12:00:00+01:00", text)
}

// parsePast reads a time, or a duration that counts back from now.
func parsePast(text string) (time.Time, error) {
	if span, err := parseSpan(text); err == nil && span >= 0 {
		return time.Now().Add(-span), nil
	}
	t, err := parseTime(text)
	if err != nil {
		return t, fmt.Errorf("%w, and no age such as 90m or 7d", err)
	}
	return t, nil
}

// parseNames reads one or several values by their names.
func parseNames[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) ([]T, error) {
	var values []T
	for name := range strings.SplitSeq(text, ",") {
		var value T
		if err := P(&value).UnmarshalText([]byte(strings.TrimSpace(name))); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// oneOf reads a value from a closed set. A hyphen stands for a space, so that no shell needs quotes.
func oneOf[T ~string](allowed ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		names := make([]string, len(allowed))
		for i, value := range allowed {
			names[i] = hyphened(value)
			if text == string(value) || text == names[i] {
				return value, nil
			}
		}
		return "", fmt.Errorf("%q is none of %s", text, strings.Join(names, ", "))
	}
}

func hyphened[T ~string](value T) string { return strings.ReplaceAll(string(value), " ", "-") }

// hyphenedList names values for a flag's help.
func hyphenedList[T ~string](values []T) string {
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = hyphened(value)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// completes offers values of a flag to the shell's completion.
func completes[T any](command *cobra.Command, flag string, values ...T) {
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = strings.ReplaceAll(fmt.Sprint(value), " ", "-")
	}
	err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was not added: a slip in this program
	}
}

// flagError names the flag once, and says what was wrong with its value in our words.
func flagError(err error) error {
	var refused *pflag.InvalidValueError
	if !errors.As(err, &refused) {
		return err
	}
	if cause := errors.Unwrap(refused); !errors.As(cause, new(*strconv.NumError)) {
		return fmt.Errorf("--%s: %w", refused.GetFlag().Name, cause)
	}
	return fmt.Errorf("--%s: %q is no %s", refused.GetFlag().Name, refused.GetValue(), map[string]string{
		"bool": "true or false", "int": "whole number",
	}[refused.GetFlag().Value.Type()])
}

// exclusive refuses a command line with more than one of these flags.
func exclusive(command *cobra.Command, names ...string) {
	command.MarkFlagsMutuallyExclusive(names...) // the shell's completion goes by it
	before := command.PreRunE
	command.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		return oneOfFlags(c, names...)
	}
}

// within refuses a flag that means something beside another one only.
func within(command *cobra.Command, name, other string) {
	before := command.PreRunE
	command.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		if c.Flags().Changed(name) && !c.Flags().Changed(other) {
			return fmt.Errorf("--%s means something with --%s only", name, other)
		}
		return nil
	}
}

func oneOfFlags(command *cobra.Command, names ...string) error {
	var given []string
	for _, name := range names {
		if command.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return fmt.Errorf("give only one of %s", strings.Join(given, ", "))
	}
	return nil
}

// paging are the flags of lists.
type paging struct {
	limit int
	after string
}

func (g *paging) add(command *cobra.Command) {
	command.Flags().IntVar(&g.limit, "limit", 0, "print at most `N` rows (default 50 on a terminal, else all)")
	command.Flags().StringVar(&g.after, "after", "", "go on behind this `CURSOR`, which a cut list prints")
}

// rows is the limit for this form of output: 0 means all.
func (g *paging) rows(p *printer) (int, error) {
	switch {
	case g.limit < 0:
		return 0, &pawl.FieldError{Field: "limit", Value: g.limit, Rule: "must be at least 1, or 0 for all"}
	case g.limit == 0 && p.mode == modeTable:
		return 50, nil
	}
	return g.limit, nil
}

// acting are the flags of commands that change something and so go into the audit trail.
type acting struct {
	by, reason string
	must       bool // the reason has to be given
}

func (a *acting) add(command *cobra.Command) {
	command.Flags().StringVar(&a.by, "by", "", "`WHO` acts, for the audit trail (default: your login name)")
	why := "`WHY`, for the audit trail"
	if a.must {
		why += " (has to be given)"
	}
	command.Flags().StringVar(&a.reason, "reason", "", why)
}

func (a *acting) actor(p *program) (pawl.By, error) {
	if a.must && strings.TrimSpace(a.reason) == "" {
		return pawl.By{}, withStatus(exitUsage, errors.New("say why, for the audit trail: --reason WHY"))
	}
	by := pawl.By{Who: a.by, Door: "cli", Why: a.reason}
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if by.Who == "" {
			by.Who = p.env(name)
		}
	}
	if by.Who == "" {
		if current, err := user.Current(); err == nil {
			by.Who = current.Username
		}
	}
	if by.Who == "" {
		return by, withStatus(exitUsage, errors.New("who acts is not known: say so with --by NAME"))
	}
	return by, nil
}

// parseIDs reads full ids, each once, in the order given.
func parseIDs(args []string) ([]pawl.ID, error) {
	var ids []pawl.ID
	seen := map[pawl.ID]bool{}
	for _, arg := range args {
		id, err := pawl.ParseID(arg)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
