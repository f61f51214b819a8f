package api

import (
	"context"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/storable"
	"github.com/pawljobs/pawl/internal/wire"
)

// Letters is pawl.DeadLetters.Letters.
func (c *Client) Letters(ctx context.Context, f pawl.LetterFilter, page pawl.Page) (pawl.LetterPage, error) {
	if err := desk.CheckLetters(f); err != nil {
		return pawl.LetterPage{}, err
	}
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.LetterPage{}, err
	}
	answer, err := send(ctx, c, lettersRoute, lettersQuery{wire.FilterOf(f), paging})
	return pawl.LetterPage{Letters: wire.Each(answer.Letters, wire.Letter.Read), Next: string(answer.Next)}, err
}

// Letter is pawl.DeadLetters.Letter.
func (c *Client) Letter(ctx context.Context, id pawl.ID) (pawl.DeadLetter, error) {
	answer, err := send(ctx, c, letterRoute, letterQuery{id, true})
	return answer.Read(), err
}

// CountLetters is pawl.DeadLetters.CountLetters.
func (c *Client) CountLetters(ctx context.Context, f pawl.LetterFilter) (int, error) {
	if err := desk.CheckLetters(f); err != nil {
		return 0, err
	}
	answer, err := send(ctx, c, countRoute, wire.FilterOf(f))
	return answer.Count, err
}

// LetterGroups is pawl.DeadLetters.LetterGroups.
func (c *Client) LetterGroups(ctx context.Context, f pawl.LetterFilter, limit int) (pawl.LetterGroups, error) {
	if err := desk.CheckLetters(f); err != nil {
		return pawl.LetterGroups{}, err
	}
	answer, err := send(ctx, c, groupsRoute, groupsQuery{wire.FilterOf(f), pageSize(limit)})
	return pawl.LetterGroups{
		Groups: wire.Each(answer.Groups, wire.Group.Read), All: answer.All, Letters: answer.Letters,
		From: answer.From.Time(), Width: wire.Span(answer.WidthMS),
	}, err
}

// FindGroup is pawl.DeadLetters.FindGroup.
func (c *Client) FindGroup(ctx context.Context, prefix string) (string, error) {
	if prefix == "" { // is no segment of a path
		return "", &pawl.FieldError{Field: "group", Value: "", Rule: "must not be empty"}
	}
	answer, err := send(ctx, c, findGroupRoute, groupQuery{prefix})
	return answer.Group, err
}

// AlertsOf is pawl.Alerts.AlertsOf.
func (c *Client) AlertsOf(ctx context.Context, letter pawl.ID) ([]pawl.AlertView, error) {
	answer, err := send(ctx, c, alertsOfRoute, letterPath{letter})
	return wire.Each(answer.Alerts, wire.LetterAlert.Read), err
}

// ForgetLetter is pawl.DeadLetters.ForgetLetter.
func (c *Client) ForgetLetter(ctx context.Context, id pawl.ID, by pawl.By) (bool, error) {
	act, err := actingOf(by)
	if err != nil {
		return false, err
	}
	answer, err := send(ctx, c, forgetRoute, letterAct{id, act})
	return answer.Forgotten, err
}

// PruneLetters is pawl.DeadLetters.PruneLetters.
func (c *Client) PruneLetters(ctx context.Context, f pawl.LetterFilter, by pawl.By) (pawl.Pruned, error) {
	act, err := actingOf(by)
	if err == nil {
		err = desk.CheckLetters(f)
	}
	if err != nil {
		return pawl.Pruned{}, err
	}
	answer, err := send(ctx, c, pruneRoute, pruning{wire.FilterOf(f), act})
	return pawl.Pruned(answer), err
}

// EraseArgs is pawl.Eraser.EraseArgs.
func (c *Client) EraseArgs(ctx context.Context, e pawl.Erase) (pawl.Erased, error) {
	act, err := actingOf(e.By)
	if err != nil {
		return pawl.Erased{}, err
	}
	answer, err := send(ctx, c, eraseRoute, erasing{
		e.IDs, e.CorrelationID, e.Tag, e.Kind, e.Text, e.Texts, e.Unfinished, e.Expect, e.DryRun, act,
	})
	return answer.Read(), err
}

// Audit is pawl.DeadLetters.Audit.
func (c *Client) Audit(ctx context.Context, f pawl.AuditFilter, page pawl.Page) (pawl.AuditPage, error) {
	if err := desk.CheckAudit(f); err != nil {
		return pawl.AuditPage{}, err
	}
	paging, err := pagingOf(page)
	if err != nil {
		return pawl.AuditPage{}, err
	}
	answer, err := send(ctx, c, auditRoute, auditQuery{f.Subject, f.Who, string(f.Action), f.Since, paging})
	return pawl.AuditPage{Entries: wire.Each(answer.Entries, wire.AuditEntry.Read), Next: string(answer.Next)}, err
}

// Sinks is pawl.Alerts.Sinks.
func (c *Client) Sinks(ctx context.Context) ([]pawl.SinkView, error) {
	answer, err := send(ctx, c, sinksRoute, none{})
	return wire.Each(answer.Sinks, wire.Sink.Read), err
}

// ForgetSink is pawl.Alerts.ForgetSink.
func (c *Client) ForgetSink(ctx context.Context, sink string, by pawl.By) (int, error) {
	act, err := actingOf(by)
	if err != nil {
		return 0, err
	}
	answer, err := send(ctx, c, forgetSinkRoute, sinkAct{sink, act})
	return answer.Undelivered, err
}

// recordAtOnce is how many deaths go in one request: each may have more than a megabyte of evidence.
const recordAtOnce = 20

// RecordDeaths is pawl.DeadLetters.RecordDeaths. It takes several requests for many; doing it again is as good as once.
func (c *Client) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	for _, letter := range letters {
		if letter.ID.IsZero() {
			return nil, &pawl.FieldError{Field: "letter", Value: letter.ID, Rule: "must have an id"}
		}
	}
	var out []pawl.Recorded
	for first := 0; first < len(letters); first += recordAtOnce {
		part := letters[first:min(first+recordAtOnce, len(letters))]
		answer, err := send(ctx, c, recordRoute, recording{wire.Each(part, func(l pawl.DeadLetter) wire.Death { return wire.DeathOf(storable.Letter(l)) })})
		if err == nil && len(answer.Recorded) != len(part) {
			err = shortAnswer(len(answer.Recorded), len(part))
		}
		if err != nil {
			return nil, err
		}
		for _, r := range answer.Recorded {
			out = append(out, pawl.Recorded(r))
		}
	}
	return out, nil
}

// moveAtOnce is how many moves go in one request.
const moveAtOnce = 500

// MoveLetters is pawl.DeadLetters.MoveLetters. It takes several requests for many, the first of which may have been done
// when a later one fails.
func (c *Client) MoveLetters(ctx context.Context, moves []pawl.Move) ([]error, error) {
	errs := make([]error, len(moves))
	var sound []int
	for i, m := range moves {
		if errs[i] = desk.CheckMove(m); errs[i] == nil {
			sound = append(sound, i)
		}
	}
	for first := 0; first < len(sound); first += moveAtOnce {
		part := sound[first:min(first+moveAtOnce, len(sound))]
		answer, err := send(ctx, c, moveRoute, moving{wire.Each(part, func(i int) wire.Move { return wire.MoveOf(moves[i]) })})
		if err == nil && len(answer.Results) != len(part) {
			err = shortAnswer(len(answer.Results), len(part))
		}
		if err != nil {
			return nil, err
		}
		for i, r := range answer.Results {
			errs[part[i]] = r.Problem.err()
		}
	}
	return errs, nil
}

// ClaimAlerts is pawl.Alerts.ClaimAlerts.
func (c *Client) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	answer, err := send(ctx, c, claimAlertsRoute, claiming{
		claim.Session, wire.List(claim.Sinks), claim.Max, claim.Storm.Deaths, wire.Millis(claim.Storm.Window),
	})
	return wire.Each(answer.Alerts, wire.Alert.Read), err
}

// SettleAlerts is pawl.Alerts.SettleAlerts.
func (c *Client) SettleAlerts(ctx context.Context, done []pawl.AlertResult) ([]error, error) {
	if len(done) == 0 {
		return nil, nil
	}
	answer, err := send(ctx, c, settleAlertsRoute, settling{wire.Each(done, func(r pawl.AlertResult) delivery {
		return delivery{r.Row, int64(r.Token), r.Delivered, wire.Millis(r.After), r.Error}
	})})
	if err == nil && len(answer.Results) != len(done) {
		err = shortAnswer(len(answer.Results), len(done))
	}
	return wire.Each(answer.Results, func(r result) error { return r.Problem.err() }), err
}
