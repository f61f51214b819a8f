package main

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
		RunE: p.doing(func(context.Context, []string) error {
			version, commit := built()
			if p.json {
				return p.printer.object(struct {
					Version  string `json:"version"`
					Commit   text   `json:"commit"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{version, text(commit), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			p.printer.line("pawl ", version, " ", runtime.Version(), " ", runtime.GOOS, "/", runtime.GOARCH)
			return nil
		}),
	}
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
