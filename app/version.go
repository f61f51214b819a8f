package app

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  needs("", 0, 0),
		RunE:  p.doing(func(context.Context, []string) error { return p.printVersion() }),
	}
}

// versioned gives the program itself a flag that does the same.
func (p *program) versioned(root *cobra.Command) *cobra.Command {
	var asked bool
	root.Flags().BoolVar(&asked, "version", false, "print the version of this program")
	help := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if !asked {
			return help(c, args)
		}
		return p.doing(func(context.Context, []string) error { return p.printVersion() })(c, args)
	}
	return root
}

func (p *program) printVersion() error {
	version, commit := built()
	if p.json {
		return p.printer.object(struct {
			Version  string `json:"version"`
			Commit   text   `json:"commit"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{version, text(commit), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
	}
	p.printer.line(p.title(), " ", version, " ", runtime.Version(), " ", runtime.GOOS, "/", runtime.GOARCH)
	return nil
}

// built is what the Go toolchain has recorded of this build.
func built() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	if info.Main.Version == "" {
		return "(devel)", commit
	}
	return info.Main.Version, commit
}
