package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Engine is what a store runs on.
type Engine string

// The engines that this program knows.
const (
	SQLite   Engine = "sqlite"
	Postgres Engine = "postgres"
	Remote   Engine = "remote" // the API of a server, which has the store
)

// Target is a store as it was asked for.
type Target struct {
	Engine Engine
	At     string // a file's path, a database's URL
}

// String is the store as it may be shown: without a password.
func (t Target) String() string {
	if t.Engine == SQLite {
		return "sqlite:" + t.At
	}
	return Redacted(t.At)
}

// schemeForm is what may be a scheme (RFC 3986, 3.1): of anything else nothing is shown.
var schemeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// pathForm is what can only be a path: without a blank, = and @ it is no connection string and has no password.
var pathForm = regexp.MustCompile(`^[^\s=@]+$`)

// ParseTarget reads the URL of a store. Errors name no more of it than its scheme, or a mere path: it may carry a password.
func ParseTarget(text string) (Target, error) {
	scheme, path, found := strings.Cut(text, ":")
	switch {
	case !found && pathForm.MatchString(text):
		return Target{}, fmt.Errorf("store %q has no scheme: write sqlite:%s", short(text), short(text))
	case !found || !schemeForm.MatchString(scheme):
		return Target{}, errors.New("the store is no URL: write sqlite:PATH or postgres://USER@HOST/DATABASE")
	case scheme == "postgres" || scheme == "postgresql":
		if !strings.HasPrefix(path, "//") {
			return Target{}, fmt.Errorf("the store is no URL: write %s://USER@HOST/DATABASE", scheme)
		}
		return Target{Postgres, text}, nil
	case scheme == "http" || scheme == "https":
		return Target{Remote, text}, nil
	case scheme != "sqlite":
		return Target{}, fmt.Errorf("stores of the kind %q are not supported by this program: sqlite:PATH, postgres://… and, for a server's API, https://HOST are", short(scheme))
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return Target{}, errors.New("the store names no file: write sqlite:PATH")
	}
	return Target{SQLite, path}, nil
}

// Picked is the connection that commands and hosts work on.
func (s *Settings) Picked() Connection { return s.Connections[s.Connection] }

// Target is the store of a connection, with its password.
func (c Connection) Target() (Target, error) {
	t, err := ParseTarget(c.URL)
	if err != nil || c.Password == "" {
		return t, err
	}
	if t.Engine != Postgres {
		return t, errors.New("a password is for stores of PostgreSQL")
	}
	u, err := url.Parse(t.At)
	if err != nil {
		return t, errors.New("the store is no URL: write postgres://USER@HOST/DATABASE")
	}
	u.User = url.UserPassword(u.User.Username(), string(c.Password))
	return Target{Postgres, u.String()}, nil
}

// StoreStated reports whether anybody has named the store, which is the default one else.
func (s *Settings) StoreStated() bool {
	from, stated := s.origins["connections."+s.Connection+".url"]
	return stated && from.From != "default"
}
