package config

import (
	"runtime"
	"time"
)

// Settings are all that can be configured. The tag key is a setting's name, doc explains it, unit says how it is
// written; live marks what takes effect when the file changes, without a restart.
type Settings struct {
	Connection  string                `key:"connection" doc:"the connection that commands and hosts work on"`
	Connections map[string]Connection `key:"connections" doc:"the stores, by the names that letters and jobs refer to them by; a URL alone stands for its url"`
	DeadLetters string                `key:"dead_letters" doc:"the connection, of an SQL store, that keeps the deaths of connections that keep none themselves; each SQL store keeps its own"`
	Policy      Policy                `key:"policy" doc:"what jobs inherit that are enqueued here, where neither the call nor the kind nor the connection states it"`

	Listen  string            `key:"listen" unit:"HOST:PORT" doc:"where serve has its endpoints; port 0 takes a free one"`
	Host    Host              `key:"host"`
	Servers map[string]Server `key:"servers" doc:"the pools of workers of serve, by name; the default ones are gone as soon as one is stated"`
	Drain   Drain             `key:"drain" doc:"how long after the begin of a shutdown each part of it is over; each rung is below the next"`

	Outboxes map[string]Outbox `key:"outboxes" doc:"the outboxes in business databases that serve carries messages from, to the connection that it works on; a connection's name alone stands for its connection"`

	Alerts Alerts          `key:"alerts"`
	Sinks  map[string]Sink `key:"sinks" doc:"the channels that deaths are told to, by name, beside the log"`

	Kinds       Kinds       `key:"kinds"`
	HTTPRequest HTTPRequest `key:"http_request" doc:"the built-in kind http.request.v1"`
	CommandRun  CommandRun  `key:"command_run" doc:"the built-in kind command.run.v1, which is off without a command"`

	API API `key:"api"`
	Log Log `key:"log"`

	origins map[string]Origin
	read    map[string][]byte // what the files held
	missing []string          // files that could not be read
}

// Connection is a store.
type Connection struct {
	URL       string        `key:"url" doc:"sqlite:PATH or postgres://USER@HOST/DATABASE; a password in it is refused in a file"`
	Password  Secret        `key:"password" doc:"goes into the url"`
	Schema    string        `key:"schema" doc:"PostgreSQL: the schema of the tables; empty: pawl. A search_path of the url that names another is refused"`
	Conns     int           `key:"conns" doc:"PostgreSQL: connections of the store; 0: 4"`
	Pooler    bool          `key:"pooler" doc:"PostgreSQL: there is a pooler in transaction mode in between; pgbouncer is noticed by itself"`
	History   time.Duration `key:"history" doc:"how long finished jobs are kept to be looked at; 0: 24 hours; -1s: not at all"`
	Retention time.Duration `key:"retention" doc:"how long letters are kept that were resolved or discarded; 0: until they are pruned"`
	Migrate   bool          `key:"migrate" doc:"hosts bring the tables up to date; false: that is done by pawl migrate up alone"`
	Policy    Policy        `key:"policy" doc:"what jobs of this connection inherit"`
}

// Policy is what jobs inherit.
type Policy struct {
	Queue     string          `key:"queue" doc:"where a job waits; empty: 2-default"`
	MaxTries  int             `key:"max_tries" doc:"the first run and the retries; 0: 6"`
	Backoff   []time.Duration `key:"backoff" doc:"the waits after failed attempts, the last one used again; none: 1m, 5m, 30m, 2h"`
	Jitter    float64         `key:"jitter" doc:"the share by which a wait is lengthened at random; 0: 0.1 on the default backoff, else none"`
	Timeout   time.Duration   `key:"timeout" doc:"of one attempt; 0: 4 minutes"`
	RetryFor  time.Duration   `key:"retry_for" doc:"how long after its enqueue a job may be started; 0: no limit"`
	Redrive   string          `key:"redrive" doc:"any, one-by-one or never; empty: any"`
	StartsOff bool            `key:"starts_off" doc:"jobs wait until their kind is switched on"`
}

// Host is the process.
type Host struct {
	Name         string        `key:"name" doc:"as it is shown; empty: the machine's name"`
	Poll         time.Duration `key:"poll" doc:"between looks for work that nothing has announced"`
	MaxUnsettled int           `key:"max_unsettled" doc:"ended attempts that may wait to be recorded before no more jobs are claimed"`
}

// Server is a pool of workers.
type Server struct {
	Queues  []string       `key:"queues" doc:"what it serves, in the order of their names"`
	Weights map[string]int `key:"weights" doc:"the share of each queue, in place of the strict order"`
	Workers int            `key:"workers" doc:"how many jobs run at a time"`
}

// Drain is the ladder of a shutdown.
type Drain struct {
	Handler time.Duration `key:"handler" doc:"running handlers are cancelled"`
	Server  time.Duration `key:"server" doc:"jobs of handlers that have not returned are put back; unless stated 15s after handler"`
	Host    time.Duration `key:"host" doc:"the process ends; unless stated 15s after server; the service manager has to wait longer"`
}

// Outbox is one in a business database.
type Outbox struct {
	Connection string        `key:"connection" doc:"the connection whose database the outbox is in; empty: the one that is called as the outbox is"`
	Schema     string        `key:"schema" doc:"PostgreSQL: the schema of its tables; empty: public"`
	Table      string        `key:"table" doc:"its table; empty: pawl_outbox"`
	Keep       time.Duration `key:"keep" doc:"how long the rows of dispatched messages are kept to be looked at; 0: they are removed at once; -1s: for good"`
	Poll       time.Duration `key:"poll" doc:"between looks for messages that no commit has announced; 0: 1s"`
	Migrate    bool          `key:"migrate" doc:"serve makes its tables and brings them up to date; false: that is left to the service"`
	Off        bool          `key:"off" doc:"this host carries none of its messages; to stop all hosts: pawl outbox pause"`
}

// Alerts bounds what sinks are told.
type Alerts struct {
	Deaths   int           `key:"deaths" doc:"of a window that are told one by one; the rest of it is one digest"`
	Window   time.Duration `key:"window" doc:"see deaths"`
	LinkBase string        `key:"link_base" live:"yes" doc:"URL of the dashboard, to which messages link; empty: no links"`
}

// Sink is a channel.
type Sink struct {
	Addr         string        `key:"addr" live:"yes" unit:"HOST:PORT" doc:"smtp: the mail server; a sink that has one sends mail"`
	From         string        `key:"from" live:"yes" doc:"smtp: the sender"`
	To           []string      `key:"to" live:"yes" doc:"smtp: the receivers, a team's mailbox: exception messages are in the mail"`
	User         string        `key:"user" live:"yes" doc:"smtp: logs in with it; empty: does not"`
	Password     Secret        `key:"password" live:"yes" doc:"smtp: of the user"`
	TLS          string        `key:"tls" live:"yes" doc:"smtp: mandatory, implicit, opportunistic, or none for a loopback address; empty: mandatory"`
	URL          Secret        `key:"url" live:"yes" doc:"webhook: where it posts; a sink that has one is a webhook, and whoever knows it can post"`
	Secret       Secret        `key:"secret" live:"yes" doc:"webhook: signs requests, at least 16 bytes"`
	AllowHTTP    bool          `key:"allow_http" live:"yes" doc:"webhook: the url may be http"`
	AllowPrivate bool          `key:"allow_private" live:"yes" doc:"webhook: loopback, private and link-local addresses are allowed"`
	Timeout      time.Duration `key:"timeout" live:"yes" doc:"of one delivery; 0: 8 s; at most 10 s"`
}

// Kinds is what this host does not run.
type Kinds struct {
	Off []string `key:"off" live:"yes" doc:"kinds that this host leaves to others, by their exact names; to switch one off for all hosts: pawl kind off"`
}

// HTTPRequest bounds the requests of http.request.v1.
type HTTPRequest struct {
	Allow         []string `key:"allow" live:"yes" doc:"hosts that may be called: api.example.com, *.example.com, * for all; with :PORT for another port than 443 (or 80 for http), :* for any"`
	AllowHTTP     bool     `key:"allow_http" live:"yes" doc:"targets may be http"`
	AllowNetworks []string `key:"allow_networks" live:"yes" doc:"networks such as 10.1.0.0/16 that may be called though they are private, loopback or link-local"`
	MaxResponse   Size     `key:"max_response" live:"yes" doc:"of a response that is read; the rest is cut off"`
}

// CommandRun lists the commands of command.run.v1.
type CommandRun struct {
	Commands map[string]Command `key:"commands" live:"yes" doc:"what jobs can run, by the names that jobs have for it; the first one needs a restart"`
}

// Command is one that jobs can run.
type Command struct {
	Run       []string      `key:"run" live:"yes" doc:"the program, as an absolute path, and its arguments; no shell sees them"`
	Args      int           `key:"args" live:"yes" doc:"how many arguments a job may add at the end"`
	Dir       string        `key:"dir" live:"yes" doc:"the working folder, absolute; empty: the system's folder for temporary files"`
	Env       Environment   `key:"env" live:"yes" doc:"its environment, beside PAWL_JOB_ID and PAWL_JOB_ATTEMPT; the values are not shown"`
	PassEnv   []string      `key:"pass_env" live:"yes" doc:"variables that it inherits"`
	Timeout   time.Duration `key:"timeout" live:"yes" doc:"after which it is ended with all that it started; 0: the job's"`
	Permanent []int         `key:"permanent" live:"yes" doc:"exit statuses that no retry can mend"`
	MaxOutput Size          `key:"max_output" live:"yes" doc:"of the end of its output, that is kept as evidence of a failure; 0: none"`
}

// Environment is what a command is given. Its values are not shown.
type Environment map[string]string

// API is the remote control.
type API struct {
	Tokens          map[string]Token `key:"tokens" live:"yes" doc:"who may use the API, by the names that the audit trail shows; none: there is no API"`
	HideFromViewers bool             `key:"hide_from_viewers" doc:"viewers see no args and no messages"`
}

// Token lets a client in.
type Token struct {
	Role string `key:"role" live:"yes" doc:"enqueue, viewer, operator or admin"`
	Hash string `key:"hash" live:"yes" doc:"SHA-256 of the token in hexadecimal"`
}

// Log is what a program that runs on tells.
type Log struct {
	Level  string `key:"level" live:"yes" doc:"debug, info, warn or error"`
	Format string `key:"format" doc:"text or json"`
}

// DefaultStore is the store of a program that was told of none.
const DefaultStore = "sqlite:pawl.db"

// defaults is where every program starts.
func defaults() *Settings {
	return &Settings{
		Connection: "default",
		Listen:     "127.0.0.1:7295",
		Host:       Host{Poll: time.Second, MaxUnsettled: 1000},
		Drain:      Drain{Handler: 105 * time.Second, Server: 120 * time.Second, Host: 135 * time.Second},
		Alerts:     Alerts{Deaths: 30, Window: time.Minute},
		HTTPRequest: HTTPRequest{
			Allow: []string{"*"}, MaxResponse: 64 << 10,
		},
		Log:     Log{Level: "info", Format: "text"},
		origins: map[string]Origin{},
		read:    map[string][]byte{},
	}
}

// entryDefaults are what a new entry of a map starts with.
var entryDefaults = map[string]any{
	"connections":          Connection{Migrate: true},
	"servers":              Server{Workers: 10},
	"outboxes":             Outbox{Migrate: true},
	"command_run.commands": Command{MaxOutput: 4 << 10},
}

// defaultServers are the servers where none is stated.
func defaultServers() map[string]Server {
	return map[string]Server{
		"io":  {Queues: []string{"1-critical", "2-default"}, Workers: 20},
		"cpu": {Queues: []string{"3-bulk"}, Workers: max(2, runtime.NumCPU())},
	}
}
