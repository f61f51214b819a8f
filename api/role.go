package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// Role is what a token may do.
type Role string

// The roles. Each may do what those above it may, but RoleEnqueue, which may do nothing else.
const (
	RoleEnqueue  Role = "enqueue"  // hand in jobs
	RoleViewer   Role = "viewer"   // look at everything; see Config.HideFromViewers
	RoleOperator Role = "operator" // redrive, retry, close and forget letters; act on jobs, queues, hosts, schedules and outboxes; enqueue
	RoleAdmin    Role = "admin"    // switch kinds, prune, purge, erase, and write as a store is written
)

var ranks = []Role{RoleViewer, RoleOperator, RoleAdmin}

// may reports that a role is enough for a route.
func (r Role) may(route route) bool {
	if r == RoleEnqueue {
		return route.enqueues
	}
	return slices.Index(ranks, r) >= slices.Index(ranks, route.needs)
}

// Token lets one client in. What it shows is kept as a hash only.
type Token struct {
	Name string // goes into the audit trail
	Role Role
	Hash [sha256.Size]byte // of the token
}

// tokenPrefix makes a token that leaked easy to find.
const tokenPrefix = "pawl_"

// NewToken draws a token: the secret for the client, and what the server keeps of it.
func NewToken(name string, role Role) (secret string, token Token, err error) {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	token = Token{Name: name, Role: role, Hash: sha256.Sum256([]byte(secret))}
	return secret, token, token.check()
}

// String is the line that ParseTokens reads.
func (t Token) String() string {
	return fmt.Sprintf("%s:%s:%s", t.Name, t.Role, hex.EncodeToString(t.Hash[:]))
}

func (t Token) check() error {
	if err := pawl.CheckName("token name", t.Name); err != nil {
		return err
	}
	if strings.ContainsAny(t.Name, ":/, ") {
		return &pawl.FieldError{Field: "token name", Value: t.Name, Rule: "must have no colon, slash, comma or space"}
	}
	if !slices.Contains(ranks, t.Role) && t.Role != RoleEnqueue {
		return &pawl.FieldError{Field: "token role", Value: string(t.Role), Rule: "must be enqueue, viewer, operator or admin"}
	}
	return nil
}

// ParseTokens reads tokens, each NAME:ROLE:HASH with the SHA-256 of the token in hexadecimal, divided by commas or line
// ends. What follows a # is a remark. Errors do not show what stands where a hash should be: it may be a token.
func ParseTokens(text string) ([]Token, error) {
	var tokens []Token
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			token, err := parseToken(part)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, token)
		}
	}
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	return tokens, nil
}

func parseToken(text string) (Token, error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return Token{}, &pawl.FieldError{Field: "token", Value: fields[0], Rule: "must be NAME:ROLE:HASH"}
	}
	token := Token{Name: fields[0], Role: Role(fields[1])}
	hash, err := hex.DecodeString(fields[2])
	if err != nil || copy(token.Hash[:], hash) != len(hash) || len(hash) != sha256.Size {
		return Token{}, &pawl.FieldError{Field: "token", Value: fields[0], Rule: "must end in the SHA-256 of the token, as 64 hexadecimal digits: pawl token new prints it"}
	}
	return token, token.check()
}

// checkTokens refuses two of one name: the trail could not tell them apart.
func checkTokens(tokens []Token) error {
	names, hashes := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for _, token := range tokens {
		if err := token.check(); err != nil {
			return err
		}
		if names[token.Name] || hashes[token.Hash] {
			return &pawl.FieldError{Field: "token", Value: token.Name, Rule: "must be given once, with a name and a secret of its own"}
		}
		names[token.Name], hashes[token.Hash] = true, true
	}
	return nil
}
