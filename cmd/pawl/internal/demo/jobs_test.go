package demo

import (
	"context"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
)

// office is a mail server with its folders, and a ledger that knows the sign-ups of the sample.
type office struct {
	folder folder
	ledger *ledger
	server *mailServer
	mails  *box
	rows   []signUp
}

func newOffice(t *testing.T, healed bool) *office {
	t.Helper()
	o := &office{folder: folder(t.TempDir())}
	if err := o.folder.fill(sample); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.rows, err = parseSignUps(sample); err != nil {
		t.Fatal(err)
	}
	if o.ledger, err = openLedger(t.Context(), o.folder.store()); err != nil {
		t.Fatal(err)
	}
	tx, err := o.ledger.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range o.rows {
		if fresh, err := insertSignUp(t.Context(), tx, row); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	o.mails = &box{path: o.folder.mails()}
	if o.server, err = startMailServer(o.mails, &box{path: o.folder.alerts()}, healed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.server.close(); err != nil {
			t.Error(err)
		}
		if err := o.ledger.close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *office) handlers(t *testing.T, address string) *handlers {
	t.Helper()
	m, err := newMailer(address)
	if err != nil {
		t.Fatal(err)
	}
	return &handlers{ledger: o.ledger, mailer: m}
}

// deadAddress is where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestMailIsMarkedAndThenNeverSentAgain(t *testing.T) {
	t.Parallel()
	o := newOffice(t, true)
	ctx, id := t.Context(), o.rows[0].ID
	unreachable := o.handlers(t, deadAddress(t))
	if err := unreachable.sendVerification(ctx, mailArgs{id}); err == nil || pawl.ClassOf(err) == pawl.ClassPermanent {
		t.Errorf("nobody listens, and the job: %v", err)
	}
	if sent, err := o.ledger.isSent(ctx, mailID(id)); err != nil || sent {
		t.Errorf("recorded as sent: %t, %v", sent, err)
	}
	if err := o.handlers(t, o.server.address()).sendVerification(ctx, mailArgs{id}); err != nil {
		t.Fatal(err)
	}
	if sent, err := o.ledger.isSent(ctx, mailID(id)); err != nil || !sent {
		t.Errorf("recorded as sent: %t, %v", sent, err)
	}
	if err := unreachable.sendVerification(ctx, mailArgs{id}); err != nil {
		t.Errorf("it tried to send again: %v", err)
	}
	got, err := receivedMails(o.mails)
	if err != nil || len(got) != 1 || got[mailID(id)] != 1 {
		t.Errorf("received %v (%v)", got, err)
	}
	if err := unreachable.sendVerification(ctx, mailArgs{"nobody"}); pawl.ClassOf(err) != pawl.ClassPermanent {
		t.Errorf("no such sign-up: %v", err)
	}
}

func TestEveryNameArrivesAsItIs(t *testing.T) {
	t.Parallel()
	o := newOffice(t, true)
	h := o.handlers(t, o.server.address())
	for _, row := range o.rows {
		if !isOdd(row.Name) {
			continue
		}
		if err := h.mailer.send(t.Context(), row, mailID(row.ID)); err != nil {
			t.Fatalf("%q: %v", row.Name, err)
		}
		file, err := os.Open(filepath.Join(o.folder.mails(), mailID(row.ID)+".eml"))
		if err != nil {
			t.Fatal(err)
		}
		message, err := netmail.ReadMessage(file)
		if err != nil {
			t.Fatal(err)
		}
		to, err := message.Header.AddressList("To")
		if err != nil || len(to) != 1 || to[0].Name != row.Name || to[0].Address != row.Email {
			t.Errorf("%q arrived as %v (%v)", row.Name, message.Header.Get("To"), err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMailServersAnswersAreClassified(t *testing.T) {
	t.Parallel()
	o := newOffice(t, false)
	h := o.handlers(t, o.server.address())
	begged, gone := 0, 0
	for _, row := range o.rows {
		send := func() pawl.Class { return pawl.ClassOf(h.mailer.send(t.Context(), row, mailID(row.ID))) }
		first, isGone := send(), row.Email == goneMailbox+"example.com"
		switch {
		case isGone && first == pawl.ClassPermanent:
			gone++
		case isGone:
			t.Errorf("a mailbox that is not there: %s", first)
		case first == pawl.ClassTransient:
			begged++
			if again := send(); again != pawl.ClassUnknown {
				t.Errorf("%s was asked to come again, and is %s then", row.ID, again)
			}
		case first != pawl.ClassUnknown:
			t.Errorf("%s: %s", row.ID, first)
		}
	}
	if gone != 1 || begged < 3 || begged > 40 {
		t.Errorf("%d mailboxes gone, %d mails asked to come again", gone, begged)
	}
}

func TestUnknownRoleIsPermanent(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	if err := h.postProfile(context.Background(), profileArgs{"u-1", "astronaut"}); pawl.ClassOf(err) != pawl.ClassPermanent {
		t.Errorf("got %v", err)
	}
}
