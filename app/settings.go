package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// keyNote is the annotation of flags that state settings: the settings' keys.
const keyNote = "pawl_setting"

// keyed makes a flag state a setting. What else it implies follows as KEY=VALUE.
func keyed(flags *pflag.FlagSet, name string, keys ...string) {
	flags.Lookup(name).Annotations = map[string][]string{keyNote: keys}
}

// anyText is for flags whose settings say themselves what is wrong with them.
func anyText(text string) (string, error) { return text, nil }

// stated are the settings that a command line states.
func stated(flags *pflag.FlagSet) (all []config.Flag) {
	flags.Visit(func(f *pflag.Flag) {
		for _, key := range f.Annotations[keyNote] {
			value := f.Value.String()
			if list, ok := f.Value.(pflag.SliceValue); ok {
				value = strings.Join(list.GetSlice(), ",")
			}
			if name, fixed, implied := strings.Cut(key, "="); implied {
				key, value = name, fixed
			}
			all = append(all, config.Flag{Name: "--" + f.Name, Key: key, Value: value})
		}
	})
	return all
}

// sources is where this run's settings come from.
func (p *program) sources() config.Sources {
	file := p.config
	if file == "" {
		file = p.env("PAWL_CONFIG")
	}
	return config.Sources{Program: p.options.Config, File: file, Environ: p.environ, Flags: p.flags, BuiltIn: p.options.BuiltIn}
}

// settings are read at the first question.
func (p *program) settings() (*config.Settings, error) {
	if p.read == nil {
		read, err := config.Load(p.sources())
		if err != nil {
			return nil, p.misconfigured(err)
		}
		p.read = read
	}
	return p.read, nil
}

// misconfigured says all that is wrong, each in a line of its own.
func (p *program) misconfigured(err error) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return err
	}
	for _, one := range problems {
		fmt.Fprintf(p.talk, "%s: %s\n", p.title(), escape(one.String()))
	}
	if problems.InFile() {
		return withStatus(exitPrecondition, errReported)
	}
	return withStatus(exitUsage, errReported)
}

// connectionOf is the one that is worked on, with what its jobs inherit.
func connectionOf(s *config.Settings) pawl.Connection {
	return pawl.Connection{Name: s.Connection, Policy: s.Picked().Policy.Pawl().Over(s.Policy.Pawl())}
}

const configHelp = `The configuration: what is in force, and whether it is right.

A flag wins over the environment, the environment over the file that --config names, the file over the defaults. Every
setting has a variable: the setting drain.handler is PAWL_DRAIN_HANDLER. Secrets stand in files of their own, named by
the key with _file at its end, or in the environment. docs/config.md lists every setting.`

func (p *program) configCommand() *cobra.Command {
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, its value, and where that comes from; secrets are not shown",
		Long: `Print every setting, its value, and where that comes from: default, program (the configuration that the program
brings), FILE:LINE, a variable, or a flag. Secrets are not shown.

In a pipe, tab-separated: setting, value, origin.`,
		Args: needs("", 0, 0),
	}
	show.RunE = p.doing(func(context.Context, []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		_, err = printList(p.printer, settingsListing, each(settings.Entries()))
		return err
	})
	check := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with the configuration (exit status 5)",
		Args:  needs("", 0, 0),
	}
	check.RunE = p.doing(func(context.Context, []string) error {
		if _, err := p.settings(); errors.Is(err, errReported) {
			return withStatus(exitPrecondition, err)
		} else if err != nil {
			return err
		}
		p.printer.line("The configuration is good.")
		return nil
	})
	return noun("config", "Show the configuration, or check it", configHelp, show, check)
}

var settingsListing = listing[config.Entry]{
	columns: []column[config.Entry]{
		{head: "SETTING", cell: func(e config.Entry) string { return e.Key }},
		{head: "VALUE", cell: func(e config.Entry) string { return e.Value }},
		{head: "FROM", cell: func(e config.Entry) string { return e.From }},
	},
	view: func(e config.Entry) any {
		return struct {
			Key   string `json:"key"`
			Value string `json:"value"`
			From  string `json:"from"`
		}{e.Key, e.Value, e.From}
	},
}
