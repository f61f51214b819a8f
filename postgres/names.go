package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// names are the numbers of kinds and queues. They never change, so what was learned once is true for ever.
type names struct {
	mu      sync.RWMutex
	numbers map[string]int32
	texts   map[int32]string
}

func (n *names) init() {
	n.numbers, n.texts = map[string]int32{}, map[int32]string{}
}

func (n *names) learn(number int32, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers[text], n.texts[number] = number, text
}

// unknown are the texts whose numbers are not known yet, each once.
func (n *names) unknown(texts []string) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []string
	for _, text := range texts {
		if _, ok := n.numbers[text]; !ok && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

const (
	insertNames = `insert into {s}.name (text) select t from unnest($1::text[]) t
where not exists (select 1 from {s}.name n where n.text = t) on conflict do nothing`
	selectNumbers = `select id, text from {s}.name where text = any($1::text[])`
	insertKinds   = `insert into {s}.kind (name) select id from {s}.name where text = any($1::text[]) on conflict do nothing`
	selectTexts   = `select id, text from {s}.name where id = any($1::int[])`
)

// number makes sure that kinds and queues have numbers. It commits on its own: the numbers of a caller's transaction
// that is rolled back stay. It must not be called while a connection of the pool is held.
func (s *Store) number(ctx context.Context, kinds, queues []string) error {
	unknownKinds := s.names.unknown(kinds)
	unknown := append(unknownKinds[:len(unknownKinds):len(unknownKinds)], s.names.unknown(queues)...)
	if len(unknown) == 0 {
		return nil
	}
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(s.sql.insertNames, unknown)
		if len(unknownKinds) > 0 {
			batch.Queue(s.sql.insertKinds, unknownKinds)
		}
		batch.Queue(s.sql.selectNumbers, unknown)
		results := conn.SendBatch(ctx, batch)
		for range batch.Len() - 1 {
			if _, err := results.Exec(); err != nil {
				return errors.Join(err, results.Close())
			}
		}
		return errors.Join(s.learnNames(results.Query()), results.Close())
	})
	if err != nil {
		return fmt.Errorf("number names: %w", err)
	}
	return nil
}

// of returns the numbers of names that have them.
func (n *names) of(texts []string) []int32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	out := make([]int32, len(texts))
	for i, text := range texts {
		out[i] = n.numbers[text]
	}
	return out
}

// text returns the name that has a number. It must not be called while a connection of the pool is held.
func (s *Store) text(ctx context.Context, number int32) (string, error) {
	s.names.mu.RLock()
	text, ok := s.names.texts[number]
	s.names.mu.RUnlock()
	if ok {
		return text, nil
	}
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.learnNames(conn.Query(ctx, s.sql.selectTexts, []int32{number}))
	})
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	text, ok = s.names.texts[number]
	if err == nil && !ok {
		err = fmt.Errorf("no name has number %d", number)
	}
	if err != nil {
		return "", fmt.Errorf("look up name: %w", err)
	}
	return text, nil
}

func (s *Store) learnNames(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	var number int32
	var text string
	_, err = pgx.ForEachRow(rows, []any{&number, &text}, func() error {
		s.names.learn(number, text)
		return nil
	})
	return err
}
