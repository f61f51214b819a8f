package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// curve is a short retry curve, so that a run ends in seconds: with six tries 7.75 s in all.
var curve = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// mailArgs name a sign-up. Args are ids: what the handler needs to know it looks up.
type mailArgs struct {
	SignUp string `json:"sign_up"`
}

// profileArgs carry the role too, so that a job that died of an unknown one can be redriven with another.
type profileArgs struct {
	SignUp string `json:"sign_up"`
	Role   string `json:"role"`
}

// The demo's kinds.
var (
	verificationMail = pawl.NewKind[mailArgs]("demo.verification-mail.v1", pawl.Policy{
		Queue: "1-critical", MaxTries: 6, Backoff: curve, Jitter: 0.2, Timeout: 20 * time.Second,
	})
	profilePost = pawl.NewKind[profileArgs]("demo.profile-post.v1", pawl.Policy{
		Queue: "2-default", MaxTries: 6, Backoff: curve, Jitter: 0.2, Timeout: 3 * time.Second,
	})
)

// handlers do the work of both kinds.
type handlers struct {
	ledger   *ledger
	mailer   mailer
	profiles profileClient
}

func (h *handlers) mux() *pawl.Mux {
	mux := pawl.NewMux()
	pawl.Handle(mux, verificationMail, h.sendVerification)
	pawl.Handle(mux, profilePost, h.postProfile)
	return mux
}

// sendVerification acts, then marks. A crash in between sends the mail again, with the same id in its header: rather
// twice than never. Once it is marked it is never sent again.
func (h *handlers) sendVerification(ctx context.Context, args mailArgs) error {
	to, err := h.ledger.signUp(ctx, args.SignUp)
	if err != nil {
		return err
	}
	mail := mailID(args.SignUp)
	sent, err := h.ledger.isSent(ctx, mail)
	if err != nil || sent {
		return err
	}
	if err := h.mailer.send(ctx, to, mail); err != nil {
		return err
	}
	// The mail is out: neither a timeout nor a shutdown may keep that from being recorded.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return h.ledger.recordSent(ctx, mail)
}

// mailID names a sign-up's verification mail, whichever job sends it.
func mailID(signUp string) string { return jobID(verificationMail.Name(), signUp).String() }

func (h *handlers) postProfile(ctx context.Context, args profileArgs) error {
	if !isKnown(args.Role) {
		return pawl.Permanent(fmt.Errorf("unknown role %q: must be one of %v", args.Role, roles))
	}
	of, err := h.ledger.signUp(ctx, args.SignUp)
	if err != nil {
		return err
	}
	return h.profiles.post(ctx, profile{SignUp: of.ID, Email: of.Email, Name: of.Name, Role: args.Role}, pawl.FromContext(ctx).ID.String())
}
