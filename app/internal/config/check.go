package config

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/app/builtin"
	"github.com/pawljobs/pawl/host"
)

// check asks those who will use the settings whether they can.
func (l *loader) check(builtIn bool) {
	l.checkConnections()
	l.checkHost()
	l.checkOutboxes()
	for _, name := range slices.Sorted(maps.Keys(l.Sinks)) {
		if _, err := l.Sink(name); err != nil {
			l.fault("sinks."+name, err)
		}
	}
	for _, kind := range l.Kinds.Off {
		l.fault("kinds.off", pawl.CheckName("kind", kind))
	}
	l.checkBuiltIn(builtIn)
	l.checkTokens()
	var level slog.Level
	if level.UnmarshalText([]byte(l.Log.Level)) != nil || strings.ContainsAny(l.Log.Level, "+-") {
		l.at("log.level", "%q is not debug, info, warn or error", short(l.Log.Level))
	}
	if l.Log.Format != "text" && l.Log.Format != "json" {
		l.at("log.format", "%q is not text or json", short(l.Log.Format))
	}
}

// at says what is wrong with the value of a key, unless something was said of it, or of what it holds, already.
func (l *loader) at(key, format string, args ...any) {
	if l.known(key) {
		return
	}
	l.wrong(l.nearestOrigin(key), key, format, args...)
}

// fault says what is wrong with a section; nil is nothing. What names one of its keys is said of that.
func (l *loader) fault(section string, err error) {
	for _, one := range leaves(err) {
		var field *pawl.FieldError
		if !errors.As(one, &field) {
			l.at(section, "%s", one)
			continue
		}
		key := section
		if below := keyName(field.Field); l.isKey(section + "." + below) {
			key = section + "." + below
		}
		l.at(key, "%s", field)
	}
}

// leaves are the errors that were joined.
func leaves(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, leaves(one)...)
		}
		return all
	}
	return []error{err}
}

// keyName is the key of a field of the API: max tries is max_tries, link base is link_base.
func keyName(field string) string {
	if field == "username" {
		return "user"
	}
	return strings.ToLower(strings.ReplaceAll(field, " ", "_"))
}

func (l *loader) isKey(key string) bool {
	_, _, found := leafOf(strings.Split(key, "."))
	return found
}

func (l *loader) checkConnections() {
	_, stated := l.Connections[l.Connection]
	if !stated {
		l.at("connection", "there is no connection %q: connections has %s", short(l.Connection), strings.Join(slices.Sorted(maps.Keys(l.Connections)), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Connections)) {
		c, section := l.Connections[name], "connections."+name
		if _, err := c.Target(); err != nil {
			l.at(section+".url", "%s", err)
		}
		if c.Conns < 0 {
			l.at(section+".conns", "%d must not be negative", c.Conns)
		}
		if c.Retention < 0 {
			l.at(section+".retention", "must not be negative")
		}
		if len(c.Schema) > 63 || strings.ContainsRune(c.Schema, 0) {
			l.at(section+".schema", "must have at most 63 bytes")
		}
		l.checkPolicy(section+".policy", c.Policy)
	}
	l.checkPolicy("policy", l.Policy)
	if l.DeadLetters != "" {
		c, stated := l.Connections[l.DeadLetters]
		t, err := c.Target()
		switch {
		case !stated:
			l.at("dead_letters", "there is no connection %q", short(l.DeadLetters))
		case err == nil && t.Engine != SQLite && t.Engine != Postgres:
			l.at("dead_letters", "%q is no SQL store", short(l.DeadLetters))
		}
	}
}

// redriveRules are the rules by the words for them.
var redriveRules = map[string]pawl.RedriveRule{
	"": pawl.RedriveInherit, "any": pawl.RedriveAny, "one-by-one": pawl.RedriveOneByOne, "never": pawl.RedriveNever,
}

// Pawl is the policy as package pawl knows it.
func (p Policy) Pawl() pawl.Policy {
	return pawl.Policy{
		Queue: p.Queue, MaxTries: p.MaxTries, Backoff: p.Backoff, Jitter: p.Jitter, Timeout: p.Timeout, RetryFor: p.RetryFor,
		Redrive: redriveRules[p.Redrive], StartsOff: p.StartsOff,
	}
}

// checkPolicy makes a job under it, which is what looks at it.
func (l *loader) checkPolicy(section string, p Policy) {
	if _, known := redriveRules[p.Redrive]; !known {
		l.at(section+".redrive", "%q is not any, one-by-one or never", short(p.Redrive))
		return
	}
	kind := pawl.NewKind[struct{}]("config.check.v1", p.Pawl())
	if _, err := kind.New(context.Background(), pawl.Connection{}, struct{}{}); err != nil {
		l.fault(section, err)
	}
}

// HostServers are the servers of serve.
func (s *Settings) HostServers() []host.Server {
	var servers []host.Server
	for _, name := range slices.Sorted(maps.Keys(s.Servers)) {
		c := s.Servers[name]
		servers = append(servers, host.Server{Name: name, Queues: c.Queues, Weights: c.Weights, Workers: c.Workers})
	}
	return servers
}

// HostConfig is what the settings say of a host.
func (s *Settings) HostConfig() host.Config {
	return host.Config{
		Name: s.Host.Name, Servers: s.HostServers(), MaxUnsettled: s.Host.MaxUnsettled,
		Drain:     host.Drain{Handler: s.Drain.Handler, Server: s.Drain.Server, Host: s.Drain.Host},
		Intervals: host.Intervals{Poll: s.Host.Poll},
		Storm:     pawl.Storm{Deaths: s.Alerts.Deaths, Window: s.Alerts.Window},
	}
}

// checkHost asks package host, and says it of the keys here.
func (l *loader) checkHost() {
	if _, port, err := net.SplitHostPort(l.Listen); err != nil || !isPort(port) {
		l.at("listen", "%q is no HOST:PORT such as 127.0.0.1:7295", short(l.Listen))
	}
	for key, given := range map[string]bool{
		"host.poll": l.Host.Poll > 0, "host.max_unsettled": l.Host.MaxUnsettled > 0, "alerts.deaths": l.Alerts.Deaths > 0,
		"alerts.window": l.Alerts.Window > 0, "drain.handler": l.Drain.Handler > 0, "drain.server": l.Drain.Server > 0, "drain.host": l.Drain.Host > 0,
	} {
		if !given {
			l.at(key, "must be greater than 0")
		}
	}
	servers := l.HostServers()
	for _, err := range leaves(l.HostConfig().Check()) {
		var field *pawl.FieldError
		if !errors.As(err, &field) {
			l.at("host", "%s", err)
			continue
		}
		l.at(hostKey(field.Field, servers), "%q %s", short(fmt.Sprint(field.Value)), keyNames.Replace(field.Rule))
	}
}

// keyNames turns what a rule says of other fields into what it says of keys.
var keyNames = strings.NewReplacer("Drain.Handler", "drain.handler", "Drain.Server", "drain.server", "Drain.Host", "drain.host")

func (l *loader) known(key string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == key || strings.HasPrefix(p.Key, key+".") })
}

// hostKey is where a field of a host's configuration comes from.
func hostKey(field string, servers []host.Server) string {
	switch first, rest, _ := strings.Cut(field, "."); {
	case first == "Drain":
		return "drain." + strings.ToLower(rest)
	case first == "Storm":
		return "alerts." + strings.ToLower(rest)
	case field == "Intervals.Poll":
		return "host.poll"
	case field == "MaxUnsettled":
		return "host.max_unsettled"
	case field == "Name":
		return "host.name"
	case strings.HasPrefix(first, "Servers["):
		i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(first, "Servers["), "]"))
		if err != nil || i >= len(servers) {
			return "servers"
		}
		rest, _, _ = strings.Cut(rest, "[")
		return "servers." + servers[i].Name + "." + strings.ToLower(rest)
	}
	return "host"
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// tlsPolicies are those of mail by the words for them.
var tlsPolicies = map[string]alert.TLSPolicy{
	"": alert.TLSMandatory, "mandatory": alert.TLSMandatory, "implicit": alert.TLSImplicit, "opportunistic": alert.TLSOpportunistic, "none": alert.TLSNone,
}

// Sink makes the sink of a name.
func (s *Settings) Sink(name string) (pawl.Sink, error) {
	c := s.Sinks[name]
	if name == "log" {
		return nil, &pawl.FieldError{Field: "sink", Value: name, Rule: "must not be called log: every host has that one"}
	}
	if err := c.mixed(); err != nil {
		return nil, err
	}
	if c.URL != "" {
		return alert.NewWebhook(alert.WebhookConfig{
			Name: name, URL: string(c.URL), Secret: []byte(c.Secret), AllowHTTP: c.AllowHTTP, AllowPrivate: c.AllowPrivate,
			Timeout: c.Timeout, LinkBase: s.Alerts.LinkBase,
		})
	}
	tls, known := tlsPolicies[c.TLS]
	if !known {
		return nil, &pawl.FieldError{Field: "tls", Value: c.TLS, Rule: "must be mandatory, implicit, opportunistic or none"}
	}
	return alert.NewSMTP(alert.SMTPConfig{
		Name: name, Addr: c.Addr, From: c.From, To: c.To, Username: c.User, Password: string(c.Password), TLS: tls,
		Timeout: c.Timeout, LinkBase: s.Alerts.LinkBase,
	})
}

// mixed refuses the settings of mail at a webhook, and the other way round.
func (c Sink) mixed() error {
	mail := map[string]bool{
		"addr": c.Addr != "", "from": c.From != "", "to": len(c.To) > 0, "user": c.User != "", "password": c.Password != "", "tls": c.TLS != "",
	}
	hook := map[string]bool{"url": c.URL != "", "secret": c.Secret != "", "allow_http": c.AllowHTTP, "allow_private": c.AllowPrivate}
	others, kind := hook, "mail: it has no url"
	switch {
	case c.URL != "":
		others, kind = mail, "a webhook: it has a url"
	case c.Addr == "":
		return &pawl.FieldError{Field: "sink", Value: "", Rule: "must have an addr, of a mail server, or a url, of a webhook"}
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		if others[key] {
			return &pawl.FieldError{Field: key, Value: "stated", Rule: "must not be stated of a sink for " + kind}
		}
	}
	return nil
}

func (l *loader) checkBuiltIn(builtIn bool) {
	if !builtIn {
		for key := range l.origins {
			if strings.HasPrefix(key, "http_request.") || strings.HasPrefix(key, "command_run.") {
				l.at(key, "this program does not have the built-in kinds")
				return
			}
		}
		return
	}
	targets, err := l.Targets()
	if err != nil {
		l.fault("http_request", err)
	} else if err := targets.Check(); err != nil {
		l.fault("http_request", err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.CommandRun.Commands)) {
		if err := l.CommandRun.Commands[name].builtin().Check(); err != nil {
			l.fault("command_run.commands."+name, err)
		}
	}
}

// Targets is what http.request.v1 may reach.
func (s *Settings) Targets() (builtin.Targets, error) {
	c := s.HTTPRequest
	t := builtin.Targets{Hosts: c.Allow, HTTP: c.AllowHTTP, MaxResponse: int64(c.MaxResponse)}
	for _, text := range c.AllowNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Masked() != network {
			return t, &pawl.FieldError{Field: "allow networks", Value: text, Rule: "must be a network such as 10.1.0.0/16"}
		}
		t.Networks = append(t.Networks, network)
	}
	return t, nil
}

// Commands is what command.run.v1 can run.
func (s *Settings) Commands() map[string]builtin.Command {
	known := map[string]builtin.Command{}
	for name, c := range s.CommandRun.Commands {
		known[name] = c.builtin()
	}
	return known
}

func (c Command) builtin() builtin.Command {
	return builtin.Command{
		Run: c.Run, Args: c.Args, Dir: c.Dir, Env: c.Env, PassEnv: c.PassEnv, Timeout: c.Timeout, Permanent: c.Permanent, MaxOutput: int(c.MaxOutput),
	}
}

// checkTokens looks at each, and for two names that one secret would be let in under.
func (l *loader) checkTokens() {
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(l.API.Tokens)) {
		section, token := "api.tokens."+name, l.API.Tokens[name]
		l.checkToken(section, token)
		hash := strings.ToLower(token.Hash)
		if other, taken := names[hash]; taken && hash != "" {
			l.at(section+".hash", "is that of token %s too: each token has a secret of its own", other)
		}
		names[hash] = name
	}
}

func (l *loader) checkToken(section string, t Token) {
	if !slices.Contains([]string{"enqueue", "viewer", "operator", "admin"}, t.Role) {
		l.at(section+".role", "%q is not enqueue, viewer, operator or admin", short(t.Role))
	}
	if raw, err := hex.DecodeString(t.Hash); err != nil || len(raw) != 32 {
		l.at(section+".hash", "must be the SHA-256 of the token, as 64 hexadecimal digits")
	}
}
