package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl/outbox"
)

// OutboxNames are the outboxes, by name.
func (s *Settings) OutboxNames() []string { return slices.Sorted(maps.Keys(s.Outboxes)) }

// Outbox is one of them, with the name of its connection filled in, and the database that it is in.
func (s *Settings) Outbox(name string) (Outbox, Target, error) {
	o := s.Outboxes[name]
	if o.Connection == "" {
		o.Connection = name
	}
	c, stated := s.Connections[o.Connection]
	if !stated {
		return o, Target{}, fmt.Errorf("there is no connection %q: connections has %s", short(o.Connection), strings.Join(slices.Sorted(maps.Keys(s.Connections)), ", "))
	}
	at, err := c.Target()
	if err == nil && at.Engine != SQLite && at.Engine != Postgres {
		err = errors.New("an outbox is in a database: " + at.String() + " is none")
	}
	return o, at, err
}

// Config is what the outbox is opened with.
func (o Outbox) Config() outbox.Config {
	return outbox.Config{Schema: o.Schema, Table: o.Table, NoMigrate: !o.Migrate}
}

const shortestPoll = 10 * time.Millisecond

func (l *loader) checkOutboxes() {
	seen := map[string]string{}
	for _, name := range l.OutboxNames() {
		section := "outboxes." + name
		o, at, err := l.Outbox(name)
		if err != nil {
			l.at(section+".connection", "%s", err)
			continue
		}
		if o.Poll != 0 && o.Poll < shortestPoll {
			l.at(section+".poll", "must be at least 10ms")
		}
		script := outbox.PostgresSchema
		if at.Engine == SQLite {
			script = outbox.SQLiteSchema
		}
		if _, err := script(o.Config()); err != nil {
			l.fault(section, err)
		}
		place := at.At + "\x00" + o.Schema + "\x00" + o.Table
		if other, twice := seen[place]; twice {
			l.at(section, "it is the same as outboxes.%s", other)
		}
		seen[place] = name
	}
}
