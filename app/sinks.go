package app

import (
	"errors"
	"maps"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/spf13/cobra"
)

// sinkFlags are channels given on the command line: they state the settings of the sinks webhook and email. Secrets have
// no flags, since others on the machine can read a command line: see PAWL_SINKS_WEBHOOK_SECRET and its like.
func sinkFlags(command *cobra.Command) {
	flags := command.Flags()
	text := func(name, kind, help, key string) {
		addFlag(flags, new(string), name, kind, help, anyText)
		keyed(flags, name, key)
	}
	text("webhook", "URL", "post messages to this URL, of Slack, Discord or your own (default $PAWL_SINKS_WEBHOOK_URL; signed with $PAWL_SINKS_WEBHOOK_SECRET)", "sinks.webhook.url")
	flags.Bool("allow-http", false, "the webhook may be http")
	keyed(flags, "allow-http", "sinks.webhook.allow_http")
	flags.Bool("allow-private", false, "the webhook may be at a loopback, private or link-local address")
	keyed(flags, "allow-private", "sinks.webhook.allow_private")
	text("smtp", "HOST:PORT", "send mails through this server", "sinks.email.addr")
	text("from", "ADDRESS", "sender of the mails", "sinks.email.from")
	flags.StringSlice("to", nil, "receiver of the mails, an `ADDRESS`; several with commas")
	keyed(flags, "to", "sinks.email.to")
	text("smtp-user", "NAME", "to log in with; the password is in $PAWL_SINKS_EMAIL_PASSWORD", "sinks.email.user")
	text("smtp-tls", "POLICY", "mandatory (default), implicit, opportunistic, or none for a loopback address", "sinks.email.tls")
	text("link-base", "URL", "of the dashboard, to which messages link", "alerts.link_base")
}

// sinksOf are those of the settings.
func sinksOf(settings *config.Settings) (sinks []pawl.Sink, err error) {
	for _, name := range slices.Sorted(maps.Keys(settings.Sinks)) {
		sink, failed := settings.Sink(name)
		sinks, err = append(sinks, sink), errors.Join(err, failed)
	}
	return sinks, err
}
