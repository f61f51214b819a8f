package app

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/spf13/cobra"
)

// The environment holds what must not be seen on a command line.
const (
	webhookVariable  = "PAWL_WEBHOOK"        // the URL: whoever has it can post
	secretVariable   = "PAWL_WEBHOOK_SECRET" // signs
	passwordVariable = "PAWL_SMTP_PASSWORD"
)

// sinkFlags are channels given on the command line.
type sinkFlags struct {
	webhook                 string
	allowHTTP, allowPrivate bool
	smtp, from, user        string
	to                      []string
	tls                     alert.TLSPolicy
	linkBase                string
}

func (s *sinkFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&s.webhook, "webhook", "", "post messages to this `URL`, of Slack, Discord or your own (default $"+webhookVariable+"; signed with $"+secretVariable+")")
	flags.BoolVar(&s.allowHTTP, "allow-http", false, "the webhook may be http")
	flags.BoolVar(&s.allowPrivate, "allow-private", false, "the webhook may be at a loopback, private or link-local address")
	flags.StringVar(&s.smtp, "smtp", "", "send mails through the server at `HOST:PORT`")
	flags.StringVar(&s.from, "from", "", "sender of the mails, an `ADDRESS`")
	flags.StringSliceVar(&s.to, "to", nil, "receiver of the mails, an `ADDRESS`; several with commas")
	flags.StringVar(&s.user, "smtp-user", "", "`NAME` to log in with; the password is in $"+passwordVariable)
	addFlag(flags, &s.tls, "smtp-tls", "POLICY", "mandatory (default), implicit, opportunistic, or none for a loopback address", parseTLS)
	flags.StringVar(&s.linkBase, "link-base", "", "`URL` of the dashboard, to which messages link")
}

func parseTLS(text string) (alert.TLSPolicy, error) {
	policies := map[string]alert.TLSPolicy{
		"mandatory": alert.TLSMandatory, "implicit": alert.TLSImplicit, "opportunistic": alert.TLSOpportunistic, "none": alert.TLSNone,
	}
	policy, known := policies[text]
	if !known {
		return 0, fmt.Errorf("%q is not mandatory, implicit, opportunistic or none", text)
	}
	return policy, nil
}

// sinks are those that were given, checked.
func (s *sinkFlags) sinks(p *program) (sinks []pawl.Sink, err error) {
	var errs []error
	if url := cmp.Or(s.webhook, p.env(webhookVariable)); url != "" {
		sink, err := alert.NewWebhook(alert.WebhookConfig{
			URL: url, Secret: []byte(p.env(secretVariable)), AllowHTTP: s.allowHTTP, AllowPrivate: s.allowPrivate, LinkBase: s.linkBase,
		})
		sinks, errs = append(sinks, sink), append(errs, err)
	}
	if s.smtp != "" {
		config := alert.SMTPConfig{Addr: s.smtp, From: s.from, To: s.to, Username: s.user, TLS: s.tls, LinkBase: s.linkBase}
		if s.user != "" {
			config.Password = p.env(passwordVariable)
		}
		sink, err := alert.NewSMTP(config)
		sinks, errs = append(sinks, sink), append(errs, err)
	} else if s.from != "" || len(s.to) > 0 || s.user != "" {
		errs = append(errs, errors.New("--from, --to and --smtp-user go with --smtp HOST:PORT"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, withStatus(exitUsage, err)
	}
	return sinks, nil
}
