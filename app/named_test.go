package app

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawljobs/pawl"
)

// A service's program is not told of in its help as pawl, which its reader may not have.
func TestHelpCallsTheProgramByItsName(t *testing.T) {
	t.Parallel()
	p := &program{mux: pawl.NewMux(), options: Options{Name: "shop"}}
	root := p.root()
	if !strings.Contains(root.Long, "\n  shop dead groups ") || !strings.HasPrefix(root.Long, "shop operates a Pawl store") {
		t.Errorf("the help of the whole: %s", root.Long)
	}
	other := regexp.MustCompile(`\bpawl [a-z]+`)
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		texts := []string{c.Short, c.Long, c.Example}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, text := range texts {
			if found := other.FindString(text); found != "" {
				t.Errorf("%s speaks of %q: %s", c.CommandPath(), found, text)
			}
		}
		for _, verb := range c.Commands() {
			look(verb)
		}
	}
	look(root)
}
