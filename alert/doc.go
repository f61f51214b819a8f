// Package alert has the channels that tell people of deaths: a log, mail over SMTP, and a webhook that chat services
// such as Slack and Discord take as it is.
//
// A sink is handed to a worker host, which registers its name in the store. From then on every death writes one row for
// it in the death's own transaction, and any host that has a sink of that name delivers:
//
//	mail, err := alert.NewSMTP(alert.SMTPConfig{
//		Addr: "mail.example.com:587", From: "jobs@example.com", To: []string{"oncall@example.com"},
//		Username: "jobs", Password: os.Getenv("SMTP_PASSWORD"),
//	})
//	chat, err := alert.NewWebhook(alert.WebhookConfig{URL: os.Getenv("ALERT_WEBHOOK")})
//
// A sink makes one attempt and returns its error; repeating is the host's task. A delivery whose outcome nobody
// learned is repeated, so each carries the alert's key for its receiver to recognise: the Message-ID of a mail, the
// header Idempotency-Key of a webhook.
//
// Configurations are checked when a sink is made; what is wrong is a *pawl.FieldError. No error of this package contains
// a password, a secret, or more of a webhook's URL than its host.
package alert
