package pawl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawljobs/pawl/internal/chain"
)

// Fixed limits of evidence.
const (
	maxMessage   = 4000     // characters
	maxDetail    = 64 << 10 // bytes
	maxChain     = 32       // errors of a chain that are listed
	maxErrorText = 1 << 20  // bytes of an error's text that are looked at
)

// Evidence is what is kept of an error: storable whatever the error was. NUL and invalid UTF-8 are replaced, long
// text is cut at a rune boundary and the cut is marked, and an Error method that panics is reported as that. The query of
// a URL that failed is left out.
type Evidence struct {
	Type    string // Go type of the first error of the chain that is not a mere wrapper, such as *url.Error
	Message string // of the whole error, at most 4,000 characters
	Detail  string // the chain, one error a line, and the stacks; at most 64 KiB
}

// NewEvidence looks at an error. A nil error gives empty evidence.
func NewEvidence(err error) Evidence {
	if err == nil {
		return Evidence{}
	}
	text := publicText(err)
	return Evidence{
		Type:    cutBytes(storable(typeName(firstReal(err))), 256),
		Message: cutRunes(storable(text(err)), maxMessage),
		Detail:  cutBytes(detail(err, text), maxDetail),
	}
}

// publicText is errorText without the queries of URLs that the errors of net/http print: keys and tokens travel in them.
func publicText(err error) func(error) string {
	var queries []string
	level := err
	for range chain.Limit {
		if e, ok := level.(*url.Error); ok && e != nil {
			if _, query, _ := strings.Cut(e.URL, "?"); query != "" {
				quoted := strconv.Quote(query)
				queries = append(queries, "?"+query, "?…", "?"+quoted[1:len(quoted)-1], "?…")
			}
		}
		parts, inner := chain.Unwrap(level)
		if len(parts) > 0 {
			inner = parts[0]
		}
		if inner == nil {
			break
		}
		level = inner
	}
	if queries == nil {
		return errorText
	}
	hide := strings.NewReplacer(queries...)
	return func(err error) string { return hide.Replace(errorText(err)) }
}

// firstReal passes over errors that only wrap: those of fmt.Errorf, errors.Join and this package's classes. Of
// several parts it takes the first.
func firstReal(err error) error {
	for range chain.Limit {
		if !isWrapper(err) {
			return err
		}
		parts, inner := chain.Unwrap(err)
		if len(parts) > 0 {
			inner = parts[0]
		}
		if inner == nil {
			return err
		}
		err = inner
	}
	return err
}

var wrapperTypes = map[reflect.Type]bool{
	reflect.TypeOf(fmt.Errorf("%w", errors.ErrUnsupported)):                          true,
	reflect.TypeOf(fmt.Errorf("%w%w", errors.ErrUnsupported, errors.ErrUnsupported)): true,
	reflect.TypeOf(errors.Join(errors.ErrUnsupported)):                               true,
	reflect.TypeOf((*ClassifiedError)(nil)):                                          true,
}

func isWrapper(err error) bool { return wrapperTypes[reflect.TypeOf(err)] }

func typeName(err error) string { return fmt.Sprintf("%T", err) }

// errorText is err.Error() without its dangers.
func errorText(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("(the Error method of %T panicked: %s)", err, panicText(v))
		}
	}()
	return err.Error()
}

// detail lists the chain and then the stacks that its errors carry.
func detail(err error, text func(error) string) string {
	var b, stacks strings.Builder
	listed, passed := 0, 0
	for level := err; level != nil && listed+passed < chain.Limit; {
		if listed < maxChain {
			listed++
			fmt.Fprintf(&b, "%s: %s\n", typeName(level), cutRunes(storable(text(level)), 1000))
			stacks.WriteString(stackOf(level))
		} else {
			passed++
		}
		parts, inner := chain.Unwrap(level)
		for _, part := range parts[min(1, len(parts)):] {
			if part != nil && listed < maxChain {
				listed++
				fmt.Fprintf(&b, "joined with %s: %s\n", typeName(part), cutRunes(storable(text(part)), 1000))
			}
		}
		if len(parts) > 0 {
			inner = parts[0]
		}
		level = inner
	}
	if passed > 0 {
		fmt.Fprintf(&b, "… and %d more errors in the chain\n", passed)
	}
	return b.String() + storable(stacks.String())
}

func stackOf(err error) string {
	switch e := err.(type) {
	case *PanicError:
		return "\n" + e.Stack
	case *ClassifiedError:
		if stack := e.Stack(); stack != "" {
			return "\nclassified as " + e.Class.String() + " at\n" + stack
		}
	}
	return ""
}

// storable makes text that every store takes: valid UTF-8 without NUL.
func storable(text string) string {
	if len(text) > maxErrorText {
		text = cutBytes(text, maxErrorText)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\u2400")
}

// cutRunes keeps at most limit characters, the mark of the cut included.
func cutRunes(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	mark := fmt.Sprintf(" … [cut from %d bytes]", len(text))
	keep := limit - utf8.RuneCountInString(mark)
	for i := range text {
		if keep == 0 {
			return text[:i] + mark
		}
		keep--
	}
	return text
}

// cutBytes keeps at most limit bytes, the mark of the cut included, and ends on a rune boundary.
func cutBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := fmt.Sprintf(" … [cut from %d bytes]", len(text))
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// The parts of a message that differ from one occurrence of the same failure to the next.
var varying = regexp.MustCompile(strings.Join([]string{
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`, // UUIDs
	`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`,            // mail addresses
	`\[[0-9a-fA-F:]+(?:%\w+)?\](?::\d+)?`,     // IPv6 addresses
	`"(?:[^"\\]|\\.)*"`, "`[^`]*`", `'[^']*'`, // quoted values
	`0[xX][0-9a-fA-F]+`, // pointers
	`\b[0-9a-fA-F]*\d[0-9a-fA-F]*[a-fA-F][0-9a-fA-F]{6,}`, // long hex
	`\d+(?:[.:,]\d+)*`, // numbers, IPv4 addresses, times
}, "|"))

// Fingerprint is the key of the group that a death belongs to: the same kind failing with the same type of error and
// the same message, but for numbers, ids, quoted values and addresses in it. It begins with the version of this rule.
func Fingerprint(kind, exceptionType, message string) string {
	text := strings.Join(strings.Fields(varying.ReplaceAllString(message, "?")), " ")
	sum := sha256.Sum256([]byte(kind + "\x00" + exceptionType + "\x00" + text))
	return "1-" + hex.EncodeToString(sum[:10])
}
