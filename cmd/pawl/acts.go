package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
)

func redriveLetters(ctx context.Context, s store, ids []pawl.ID, by pawl.By, r redriving, edited json.RawMessage) []actResult {
	results := make([]actResult, len(ids))
	for i, id := range ids {
		results[i] = actResult{letter: id, err: pawl.ErrUnsupported}
	}
	return results
}

func retryLetters(ctx context.Context, s store, ids []pawl.ID, by pawl.By, note string) []actResult {
	results := make([]actResult, len(ids))
	for i, id := range ids {
		results[i] = actResult{letter: id, err: pawl.ErrUnsupported}
	}
	return results
}

func moveLetters(ctx context.Context, s store, action pawl.Action, ids []pawl.ID, by pawl.By, note string) []actResult {
	moves := make([]pawl.Move, len(ids))
	results := make([]actResult, len(ids))
	for i, id := range ids {
		moves[i] = pawl.Move{Letter: id, Action: action, By: by, Note: note}
		results[i].letter = id
	}
	errs, err := s.MoveLetters(ctx, moves)
	for i := range results {
		results[i].err = err
		if err == nil {
			results[i].err = errs[i]
		}
	}
	return results
}

func forgetLetters(ctx context.Context, s store, ids []pawl.ID, by pawl.By) []actResult {
	results := make([]actResult, len(ids))
	for i, id := range ids {
		found, err := s.ForgetLetter(ctx, id, by)
		if err == nil && !found {
			err = fmt.Errorf("letter %s: %w", id, pawl.ErrNotFound)
		}
		results[i] = actResult{letter: id, err: err}
	}
	return results
}
